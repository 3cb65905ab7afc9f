"""verl's agent loop workers with less work for each response, for machines without an accelerator.

``actor_rollout_ref.rollout.agent.agent_loop_manager_class`` names the manager. With a small model on a few cores verl's
bookkeeping takes longer than generating. Here it is done for many responses at once, or once for all:

* verl instantiates an agent loop through Hydra for each response; here the single-turn loop, which keeps nothing
  between responses, is made once. Every other loop is set up as verl does it.
* Rows for the transfer queue that come within some milliseconds are put together, not one by one.
* Rewards are computed in the worker, by the same reward loop that verl would call in another process.
* Where there is one generation server, the load balancer is asked for it once.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import ray
import transfer_queue
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.llm_server import LLMServerClient

STATELESS = "single_turn_agent"
GATHER_SECONDS = 0.02


@dataclass
class _Rows:
    """What waits to be put into one partition."""

    keys: list[str] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    put: asyncio.Task[None] | None = None


class GatheringQueue:
    """``transfer_queue`` for verl's agent loop module: the rows of several callers go in one put. ``fields`` are
    dictionaries, one a row; a put that fails fails for every caller whose rows were in it."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Rows] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(transfer_queue, name)

    async def async_kv_batch_put(
        self, *, keys: list[str], fields: list[dict[str, Any]], tags: list[dict[str, Any]], partition_id: str
    ) -> None:
        rows = self._waiting.setdefault(partition_id, _Rows())
        rows.keys.extend(keys)
        rows.fields.extend(fields)
        rows.tags.extend(tags)
        if rows.put is None:
            rows.put = asyncio.create_task(self._put(partition_id))
        await asyncio.shield(rows.put)

    async def _put(self, partition_id: str) -> None:
        await asyncio.sleep(GATHER_SECONDS)
        rows = self._waiting.pop(partition_id)
        await transfer_queue.async_kv_batch_put(
            keys=rows.keys, fields=list_of_dict_to_tensordict(rows.fields), tags=rows.tags, partition_id=partition_id
        )


class _Local:
    """An object in this process where verl expects the handle of an actor."""

    def __init__(self, actor: Any) -> None:
        self.compute_score = self
        self.remote = actor.compute_score


class OneServerClient(LLMServerClient):
    """The client of a run with one generation server."""

    _server: tuple[str, Any] | None = None

    async def _acquire_server(self, request_id: str, **fields: Any) -> tuple[str, Any]:
        if self._server is None:
            self._server = await super()._acquire_server(request_id, **fields)
        return self._server

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        return None


class AgentLoopWorker(agent_loop_tq.AgentLoopWorkerTQ.__ray_actor_class__):
    """verl's worker; see the module's docstring."""

    llm_client: Any
    reward_loop_worker_handles: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        agent_loop_tq.tq = GatheringQueue()
        agent_loop_tq.list_of_dict_to_tensordict = list
        if self.reward_loop_worker_handles is not None and not self.config.reward.reward_model.enable:
            self.reward_loop_worker_handles = [_Local(RewardLoopWorker(self.config))]
        if self.config.trainer.n_gpus_per_node * self.config.trainer.nnodes == 1:
            self.llm_client = OneServerClient(self.config, load_balancer_handle=self.llm_client._load_balancer)
        self._single_turn = SingleTurnAgentLoop(
            trainer_config=DictConfigWrap(config=self.config),
            server_manager=self.llm_client,
            tokenizer=self.tokenizer,
            processor=self.processor,
            hf_model_type=self.hf_model_type,
            dataset_cls=self.dataset_cls,
            data_config=DictConfigWrap(self.config.data),
            tools=ToolListWrap(self.tools),
        )

    async def _run_agent_loop(
        self,
        sampling_params: dict[str, Any],
        trajectory: dict[str, Any],
        *,
        agent_name: str,
        trace: bool = True,
        **columns: Any,
    ) -> Any:
        if agent_name != STATELESS:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **columns
            )
        output = await self._single_turn.run(sampling_params, **columns)
        return await self._agent_loop_postprocess(output, trajectory["validate"], **columns)


class AgentLoopManager(agent_loop_tq.AgentLoopManagerTQ):
    """verl's manager with the workers above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.agent_loop_workers_class = ray.remote(AgentLoopWorker)

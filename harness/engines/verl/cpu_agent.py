"""verl's agent loop workers with less work for each response, for machines without an accelerator.

``actor_rollout_ref.rollout.agent.agent_loop_manager_class`` names the manager. With a small model on a few cores verl's
bookkeeping takes longer than generating. Here it is done for many responses at once, or once for all:

* verl instantiates an agent loop through Hydra for each response; here verl's single-turn loop, which keeps nothing
  between responses, is made once. Every other loop is set up as verl does it.
* Rows for the transfer queue that come within some milliseconds are put together, not one by one.
* Rewards of this package are computed in the worker, where verl asks another process. A reward that takes long holds up
  the other responses of the worker.
* Where there is one generation server, the load balancer is not asked again once it has named it.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import Any

import ray
import torch
import transfer_queue
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap, _agent_loop_registry
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.experimental.reward_loop.reward_loop import RewardLoopWorker, resolve_reward_manager_cls
from verl.trainer.ppo.v1 import agent_loop_tq
from verl.utils.tensordict_utils import list_of_dict_to_tensordict
from verl.workers.rollout.llm_server import LLMServerClient

from harness.engines.verl import compatibility
from harness.engines.verl.rewards import ChannelRewardManager

SINGLE_TURN = "single_turn_agent"
GATHER_SECONDS = 0.02


@dataclass
class _Rows:
    """What waits to be put into one partition."""

    keys: list[str] = field(default_factory=list)
    fields: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    put: asyncio.Task[None] | None = None

    def alike(self) -> list[list[int]]:
        """Places of the rows that have the same fields, tensors in the same ones: each such part is one put."""
        found: dict[frozenset[tuple[str, bool]], list[int]] = {}
        for place, row in enumerate(self.fields):
            kind = frozenset((name, isinstance(value, torch.Tensor)) for name, value in row.items())
            found.setdefault(kind, []).append(place)
        return list(found.values())


class GatheringQueue:
    """``transfer_queue`` for verl's agent loop module: the rows of several callers go in one put. ``fields`` are
    dictionaries, one a row; a put that fails fails for every caller that waits with it."""

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
        for places in rows.alike():
            await transfer_queue.async_kv_batch_put(
                keys=[rows.keys[place] for place in places],
                fields=list_of_dict_to_tensordict([rows.fields[place] for place in places]),
                tags=[rows.tags[place] for place in places],
                partition_id=partition_id,
            )


class _Local:
    """An object in this process where verl expects the handle of an actor."""

    def __init__(self, actor: Any) -> None:
        self.compute_score = self
        self.remote = actor.compute_score


class OneServerClient(LLMServerClient):
    """The client of a run with one generation server."""

    _server: tuple[str, Any] | None = None

    async def _acquire_server(self, request_id: str, **extra: Any) -> tuple[str, Any]:
        if self._server is None:
            self._server = await super()._acquire_server(request_id, **extra)
        return self._server

    def _release_server(self, server_id: str, request_id: str | None = None) -> None:
        return None

    @classmethod
    def of(cls, client: LLMServerClient) -> OneServerClient:
        """The client with all that verl gave it."""
        made = copy.copy(client)
        made.__class__ = cls
        return made


class AgentLoopWorker(agent_loop_tq.AgentLoopWorkerTQ.__ray_actor_class__):
    """verl's worker; see the module's docstring."""

    llm_client: Any
    reward_loop_worker_handles: Any

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        agent_loop_tq.tq = GatheringQueue()
        agent_loop_tq.list_of_dict_to_tensordict = list
        if issubclass(resolve_reward_manager_cls(self.config), ChannelRewardManager):
            self.reward_loop_worker_handles = [_Local(RewardLoopWorker(self.config))]
        trainer = self.config.trainer
        if type(self.llm_client) is LLMServerClient and trainer.n_gpus_per_node * trainer.nnodes == 1:
            self.llm_client = OneServerClient.of(self.llm_client)
        self._single_turn: SingleTurnAgentLoop | None = None
        target = f"{SingleTurnAgentLoop.__module__}.{SingleTurnAgentLoop.__qualname__}"
        if _agent_loop_registry[SINGLE_TURN]["_target_"] == target and not self.rollout_config.trace.get("backend"):
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
        if agent_name != SINGLE_TURN or self._single_turn is None:
            return await super()._run_agent_loop(
                sampling_params, trajectory, agent_name=agent_name, trace=trace, **columns
            )
        output = await self._single_turn.run(sampling_params, **columns)
        return await self._agent_loop_postprocess(output, trajectory["validate"], **columns)


class AgentLoopManager(agent_loop_tq.AgentLoopManagerTQ):
    """verl's manager with the workers above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        compatibility.check(compatibility.ON_A_CPU)
        super().__init__(*arguments, **options)
        self.agent_loop_workers_class = ray.remote(AgentLoopWorker)

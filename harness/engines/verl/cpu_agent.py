"""verl's agent loop workers without the cost of setting one up for every response, for machines without an accelerator.

``actor_rollout_ref.rollout.agent.agent_loop_manager_class`` names the manager. verl instantiates an agent loop through
Hydra for each response, which takes longer than generating it with a small model; here a worker instantiates each loop
once. Only the single-turn loop is known to keep nothing between responses, so every other one is set up as verl does it.
"""

from __future__ import annotations

from typing import Any

import ray
from verl.experimental.agent_loop.agent_loop import DictConfigWrap, ToolListWrap
from verl.experimental.agent_loop.single_turn_agent_loop import SingleTurnAgentLoop
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

STATELESS = "single_turn_agent"


class AgentLoopWorker(AgentLoopWorkerTQ.__ray_actor_class__):  # type: ignore[misc]
    """verl's worker; the single-turn loop is made once."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
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


class AgentLoopManager(AgentLoopManagerTQ):
    """verl's manager with the workers above."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.agent_loop_workers_class = ray.remote(AgentLoopWorker)

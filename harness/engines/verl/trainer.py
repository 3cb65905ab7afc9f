"""verl's synchronous trainer with several rewards: hands the channels to the estimator and logs what became of them.

Takes the place of verl's ``sync`` trainer. With an estimator of verl's own every method defers to verl's. With one of
ours it reads each response's rewards from what the reward function returned, leaves out the rows verl padded with, and
adds to the metrics of the step, by channel: ``reward/``, ``density/``, ``energy/``, ``weight/``, ``cap_hit/``,
``missing/``; and ``reward/score``, ``response_length``, ``failure/<kind>``.

When the configuration has a section ``harness`` (the engine writes it), the step, the evaluations and the rollouts are
also handed to the run store (:mod:`harness.engines.verl.recorder`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from harness.engines.verl.estimators import ChannelBatch, channels_of_batch, is_ours, register_own_method
from harness.engines.verl.fields import reference_kl, reward_infos, rollout_columns, row_fields
from harness.engines.verl.metrics import aggregation_metrics, response_metrics
from harness.engines.verl.naming import place_of
from harness.engines.verl.recorder import Recorder
from harness.engines.verl.sampler import GroupSampler
from harness.errors import UserError, nearest

MODE = "sync"
TRAINER_ONLY = frozenset({"rm_scores", "token_level_rewards", "returns", "log_probs", "entropy"})
"""Fields of a batch with which no worker of the policy computes."""


def register() -> None:
    """Put the trainer in the place of verl's ``sync``."""
    trainer_base.TRAINER_REGISTRY[MODE] = MultiRewardTrainer


class MultiRewardTrainer(PPOTrainerSync):
    """See the module's docstring."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        register_own_method(config.algorithm)
        self._penalties: dict[str, float] = {}
        self.ours = is_ours(ADV_ESTIMATOR_REGISTRY.get(str(config.algorithm.adv_estimator)))
        self.recorder = Recorder.of(config)
        self._objects: set[str] = set()
        self._returned: dict[str, Mapping[str, Any]] = {}
        self._candidates: int | None = None
        if isinstance(self.replay_buffer, GroupSampler):
            self._candidates = self.replay_buffer.candidates

    def _init_tokenizer(self) -> None:
        """The first thing verl sets up; a user's own estimator is registered by then, the workers are not there yet."""
        super()._init_tokenizer()
        name = str(self.config.algorithm.adv_estimator)
        if name not in ADV_ESTIMATOR_REGISTRY:
            raise UserError(f"algorithm.adv_estimator={name} is unknown: {nearest(name, ADV_ESTIMATOR_REGISTRY)}")

    # Generation.

    def prepare_step(self) -> dict[str, Any]:
        if self._candidates is None:
            return super().prepare_step()
        self._add_prompts_to_generate(self._candidates)
        return {}

    def _submit_batch_to_rollout(self, batch: Any) -> int:
        if isinstance(self.replay_buffer, GroupSampler):
            self.replay_buffer.expect(list(batch["uid"]))
        return super()._submit_batch_to_rollout(batch)

    # One step.

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> Any:
        start = time.monotonic()
        batch = super().step(metrics, timing_raw)
        seconds = time.monotonic() - start
        if self.recorder is not None:  # before the checkpoint: a step that it covers lacks nothing
            if self.recorder.wants_rollouts(self.global_steps):
                self.recorder.rollouts(self.global_steps, batch, self.tokenizer, self._penalties)
            self.recorder.after_step(self.global_steps, metrics, seconds)
        return batch

    def _compute_old_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return super()._compute_old_log_prob(self._for_workers(batch), metrics)

    def _compute_ref_log_prob(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return super()._compute_ref_log_prob(self._for_workers(batch), metrics)

    def _update_actor(self, batch: Any, metrics: dict[str, Any]) -> Any:
        return super()._update_actor(self._for_workers(batch), metrics)

    def _for_workers(self, batch: Any) -> Any:
        """Without the columns of the data set, what the agent loop noted and what the trainer alone reads: the workers
        compute with tensors, and verl would send and copy some twenty objects a response for every call. Images are
        among these objects."""
        if self.ours and self.processor is None:
            if batch.fields is None:  # it was just sampled
                tensors, self._objects = row_fields(batch.keys[0], batch.partition_id)
                batch.fields = sorted(tensors)
            left_out = self._objects | TRAINER_ONLY
            batch.fields = [name for name in batch.fields if name not in left_out]
        return batch

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        if not self.ours:
            return super()._compute_advantage(batch, metrics)
        channels = ChannelBatch(
            infos=reward_infos(batch.keys, batch.partition_id),
            padding=np.array([bool(tag.get("is_padding", False)) for tag in batch.tags]),
            sessions=[((uid, session), output) for uid, session, output in map(place_of, batch.keys)],
            progress=(self.global_steps - 1) / max(self.total_training_steps - 1, 1),
        )
        with channels_of_batch(channels):
            batch = super()._compute_advantage(batch, metrics)
        assert channels.result is not None
        assert channels.rows is not None
        assert channels.lengths is not None
        self._penalties = penalties(batch, channels)
        metrics.update(aggregation_metrics(channels.result))
        if self.use_reference_policy:
            metrics["kl"] = reference_kl(batch, channels.padding)
        of_responses = response_metrics(
            [channels.infos[row] for row in channels.rows], channels.channels, channels.lengths
        )
        # A filter has reported these of all responses it looked at.
        metrics.update({key: value for key, value in of_responses.items() if key not in metrics})
        return batch

    # Evaluations, rollouts, checkpoints.

    def fit(self, agent_loop_manager: Any) -> None:
        if self.recorder is not None:
            self.recorder.before_training(self)
        super().fit(agent_loop_manager)

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        if self.recorder is not None:
            self.recorder.evaluation(self.global_steps, reward_extra_infos_dict)
        return super()._val_metrics_update(
            data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts=expected_acc_counts
        )

    def _log_rollout_data(self, batch: Any, timing_raw: dict[str, float], rollout_data_dir: str) -> None:
        if self.recorder is None:
            self._returned = dict(zip(batch.keys, reward_infos(batch.keys, batch.partition_id), strict=True))
            super()._log_rollout_data(batch, timing_raw, rollout_data_dir)

    def _dump_generations(
        self,
        inputs: list[str],
        outputs: list[str],
        gts: list[Any],
        scores: list[float],
        reward_extra_infos_dict: dict[str, list[Any]],
        dump_path: str,
    ) -> None:
        """Rollouts with the group and each reward: of those verl writes the sum alone, and a uid for each response."""
        keys = reward_extra_infos_dict.get("uid", [])
        if keys and all(key in self._returned for key in keys):  # rollouts, not an evaluation
            added = rollout_columns({key: self._returned[key] for key in keys})
            reward_extra_infos_dict = {**added, **reward_extra_infos_dict}
        super()._dump_generations(inputs, outputs, gts, scores, reward_extra_infos_dict, dump_path)

    def _save_checkpoint(self) -> None:
        if self.recorder is not None:
            self.recorder.before_checkpoint(self.global_steps)
        super()._save_checkpoint()
        if self.recorder is not None:
            self.recorder.after_checkpoint(self.global_steps)

    def on_step_end(self) -> None:
        super().on_step_end()
        if self.recorder is not None:
            self.recorder.end_of_step(self)


def penalties(batch: Any, channels: ChannelBatch) -> dict[str, float]:
    """What the KL term added to the reward, by response; empty where the method does not see it."""
    if channels.penalty is None or channels.rows is None:
        return {}
    return {batch.keys[row]: float(value) for row, value in zip(channels.rows, channels.penalty, strict=True)}

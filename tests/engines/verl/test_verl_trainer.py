"""The order in which a step is handed over: what a checkpoint covers must be on the disk before it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from verl_cases import needs_verl

pytestmark = needs_verl


@pytest.mark.parametrize("wanted", [True, False])
def test_rollouts_and_metrics_of_a_step_are_stored_before_verl_saves_it(monkeypatch, wanted):
    from harness.engines.verl import plugin

    plugin.ensure_registered()  # verl's trainer is imported before ours
    from harness.engines.verl.trainer import MultiRewardTrainer, PPOTrainerSync

    order = []
    recorder = SimpleNamespace(
        wants_rollouts=lambda step: wanted,
        rollouts=lambda step, batch, tokenizer, penalties: order.append(("rollouts", step, batch, penalties)),
        after_step=lambda step, metrics, seconds: order.append(("metrics", step)),
        before_checkpoint=lambda step: order.append(("before", step)),
        after_checkpoint=lambda step: order.append(("after", step)),
    )
    trainer = MultiRewardTrainer.__new__(MultiRewardTrainer)
    trainer.recorder, trainer.global_steps, trainer.tokenizer = recorder, 3, None
    trainer._penalties = {"a_0_0": -0.5}
    monkeypatch.setattr(PPOTrainerSync, "step", lambda self, metrics, timing_raw: "batch")
    monkeypatch.setattr(PPOTrainerSync, "_save_checkpoint", lambda self: order.append(("checkpoint", 3)))
    assert trainer.step({}, {}) == "batch"
    trainer._save_checkpoint()
    trainer._log_rollout_data("batch", {}, "unused")
    rollouts = [("rollouts", 3, "batch", {"a_0_0": -0.5})] if wanted else []
    assert order == [*rollouts, ("metrics", 3), ("before", 3), ("checkpoint", 3), ("after", 3)]

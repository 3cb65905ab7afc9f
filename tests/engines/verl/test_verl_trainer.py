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


@pytest.mark.parametrize(
    ("ours", "processor", "narrowed"), [(True, None, True), (False, None, False), (True, object(), False)]
)
def test_workers_get_the_tensors_of_a_batch_and_nothing_else(monkeypatch, ours, processor, narrowed):
    from harness.engines.verl import plugin

    plugin.ensure_registered()
    from harness.engines.verl import trainer as module

    asked = []

    def row_fields(key, partition_id):
        asked.append((key, partition_id))
        return {"input_ids", "rm_scores"}, {"raw_prompt", "extra_fields"}

    monkeypatch.setattr(module, "row_fields", row_fields)
    trainer = module.MultiRewardTrainer.__new__(module.MultiRewardTrainer)
    trainer.ours, trainer.processor, trainer._objects = ours, processor, set()
    sampled = SimpleNamespace(keys=["a_0_0", "b_0_0"], partition_id="train", fields=None)
    later = SimpleNamespace(
        keys=["a_0_0"],
        partition_id="train",
        fields=["advantages", "entropy", "extra_fields", "input_ids", "old_log_probs", "raw_prompt", "rm_scores"],
    )
    everything = list(later.fields)
    assert trainer._for_workers(sampled).fields == (["input_ids"] if narrowed else None)
    assert trainer._for_workers(later).fields == (
        ["advantages", "input_ids", "old_log_probs"] if narrowed else everything
    )
    assert asked == ([("a_0_0", "train")] if narrowed else [])


def test_an_attempt_first_makes_the_export_that_was_killed(tmp_path, monkeypatch):
    from harness.engines.verl import recorder as module

    settings = SimpleNamespace(
        run=str(tmp_path), evaluate_every=5, steps=20, keep_checkpoints=1, keep_exports=None, keep_for_evaluation=(7,)
    )
    made = []
    monkeypatch.setattr(module.storage, "export", lambda folder, step, **options: made.append((step, options)))
    monkeypatch.setattr(module.storage, "prune", lambda *_: made.append("prune"))
    monkeypatch.setattr(module.Recorder, "_evaluation", lambda self, step: tmp_path)  # it exists
    recorder = module.Recorder(settings)
    for step, keep, final in ((7, True, False), (10, True, False), (11, False, False), (20, True, True)):
        trainer = SimpleNamespace(global_steps=step, config=SimpleNamespace(trainer=SimpleNamespace()))
        recorder.before_training(trainer)
        assert made == [(step, {"keep": keep, "final": final, "own_tokenizer": False}), "prune"]
        assert trainer.config.trainer.val_before_train is False
        made.clear()


def test_rollouts_of_a_plain_user_hold_group_and_rewards_and_evaluations_stay_verls(monkeypatch):
    from harness.engines.verl import plugin

    plugin.ensure_registered()
    import numpy as np

    from harness.engines.verl import trainer as module

    written = []
    monkeypatch.setattr(module.PPOTrainerSync, "_dump_generations", lambda self, *given: written.append(given[4]))
    monkeypatch.setattr(
        module.PPOTrainerSync,
        "_log_rollout_data",
        lambda self, batch, timing, folder: self._dump_generations([], [], [], [], {"uid": batch.keys[::-1]}, folder),
    )
    infos = [{"score": 1.5, "format": np.float32(0.5)}, {"score": 1.0, "format": None, "note": "cut"}]
    monkeypatch.setattr(module, "reward_infos", lambda keys, partition_id: infos)
    trainer = module.MultiRewardTrainer.__new__(module.MultiRewardTrainer)
    trainer.recorder, trainer._returned = None, {}
    trainer._dump_generations([], [], [], [], {"uid": ["v_0_0"], "acc": [1]}, "folder")
    trainer._log_rollout_data(SimpleNamespace(keys=["a_0_0", "a_1_0"], partition_id="train"), {}, "folder")
    trainer._dump_generations([], [], [], [], {"acc": [1]}, "folder")
    assert written == [
        {"uid": ["v_0_0"], "acc": [1]},
        {"group_uid": ["a", "a"], "format": [None, 0.5], "note": ["cut", None], "uid": ["a_1_0", "a_0_0"]},
        {"acc": [1]},
    ]

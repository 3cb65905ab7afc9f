"""Dynamic group filtering on a queue in memory: what is kept, in which order, and that the cap ends it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from verl_cases import INSTALLED, needs_verl

pytestmark = needs_verl

if INSTALLED:
    import os

    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "harness.engines.verl.cpu_platform")

CHANNELS = ["correctness", "format"]
SILENT = [(1.0, 0.0)] * 4
CORRECT_VARIES = [(1.0, 0.0), (0.0, 0.0), (1.0, 0.0), (1.0, 0.0)]
SUM_IS_CONSTANT = [(1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, 1.0)]


class Queue:
    """What the sampler uses of verl's transfer queue."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.infos: dict[str, dict[str, float]] = {}

    def add(self, uid: str, rewards: list[tuple[float, float]], status: str = "finished") -> None:
        self.tags[uid] = {"is_prompt": True, "status": status, "global_steps": 1}
        for session, (correctness, form) in reversed(list(enumerate(rewards))):  # the last one is finished first
            key = f"{uid}_{session}_0"
            self.tags[key] = {"response_len": 10 + session, "global_steps": 1}
            self.infos[key] = {"score": correctness + form, "correctness": correctness, "format": form}

    def kv_list(self, partition_id: str | None = None) -> dict[str, dict[str, Any]]:
        return {"train": dict(self.tags)}

    def kv_clear(self, keys: Any, partition_id: str) -> None:
        for key in keys:
            self.tags.pop(key, None)

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        return {"extra_fields": [{"reward_extra_info": self.infos[key]} for key in keys]}


@pytest.fixture
def queue(monkeypatch):
    from verl.trainer.ppo.v1 import replay_buffer

    from harness.engines.verl import fields

    stand_in = Queue()
    monkeypatch.setattr(replay_buffer, "tq", stand_in)
    monkeypatch.setattr(fields, "tq", stand_in)
    return stand_in


def make(batches: list[list[tuple[str, list]]], queue: Queue, **settings: Any):
    """A sampler whose refills take the next of ``batches``; the first is submitted already."""
    from harness.engines.verl.sampler import GroupSampler

    pending = list(batches)
    refills: list[int] = []

    def submit() -> None:
        groups = pending.pop(0)
        sampler.expect([uid for uid, _ in groups])
        for uid, rewards in reversed(groups):  # they finish in another order
            queue.add(uid, rewards)

    def refill(count: int) -> None:
        refills.append(count)
        submit()

    values = {"filter": "sum", "channels": CHANNELS, "needed": 2, "candidates": 4, "max_batches": 2, **settings}
    sampler = GroupSampler(
        trainer_mode="sync",
        trainer_config={},
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs=values,
        refill_fn=refill,
    )
    submit()
    return sampler, refills


def groups_of(batch: Any) -> list[str]:
    return list(dict.fromkeys(key.split("_")[0] for key in batch.keys))


def test_silent_groups_go_and_the_first_submitted_stay(queue):
    batch = [("a", CORRECT_VARIES), ("b", SILENT), ("c", CORRECT_VARIES), ("d", CORRECT_VARIES)]
    sampler, refills = make([batch], queue)
    chosen, metrics = sampler.sample(1, "train", 2)
    assert sorted(groups_of(chosen)) == ["a", "c"]
    assert refills == []
    assert {key: metrics[f"filter/{key}"] for key in ("candidates", "kept", "needed", "discarded")} == {
        "candidates": 4.0,
        "kept": 3.0,
        "needed": 2.0,
        "discarded": 2.0,
    }
    assert metrics["density_before_filter/correctness"] == 0.75
    assert metrics["density_before_filter/format"] == 0.0
    assert metrics["reward/correctness"] == pytest.approx((0.75 * 3 + 1.0) / 4)
    assert metrics["response_length"] == 11.5
    assert metrics["responses_in_step"] == 16.0


def test_a_constant_sum_is_kept_by_any_channel_alone(queue):
    batch = [("a", SUM_IS_CONSTANT), ("b", SILENT), ("c", SILENT), ("d", SILENT)]
    sampler, _ = make([batch], queue, filter="any_channel", needed=1)
    chosen, _ = sampler.sample(1, "train", 1)
    assert groups_of(chosen) == ["a"]


def test_the_cap_ends_with_what_was_kept(queue):
    silent = [[(f"{letter}{number}", SILENT) for number in range(4)] for letter in "xyz"]
    silent[1][2] = ("y2", CORRECT_VARIES)
    sampler, refills = make(silent, queue)
    chosen, metrics = sampler.sample(1, "train", 2)
    assert groups_of(chosen) == ["y2"]
    assert refills == [4]
    assert (metrics["filter/kept"], metrics["filter/needed"], metrics["filter/generation_batches"]) == (1.0, 2.0, 2.0)
    assert metrics["responses_in_step"] == 32.0
    assert not queue.tags.keys() - set(chosen.keys)


def test_no_informative_group_at_all_ends_the_run(queue):
    from harness.engines.verl.sampler import NoInformativeGroupError

    sampler, _ = make([[(f"{letter}{number}", SILENT) for number in range(4)] for letter in "xy"], queue)
    with pytest.raises(NoInformativeGroupError, match=r"none of 8 groups in 2 generation batch.*filter=any_channel"):
        sampler.sample(1, "train", 2)


def test_a_failed_group_ends_the_run(queue):
    from harness.engines.verl.sampler import FailedGroupsError

    sampler, _ = make([[("a", CORRECT_VARIES), ("b", CORRECT_VARIES)]], queue, filter="none", candidates=None)
    queue.add("c", [], status="failure")
    with pytest.raises(FailedGroupsError, match="1 of 3 groups"):
        sampler.sample(1, "train", 2)


def test_without_a_filter_all_groups_are_trained_on(queue):
    sampler, refills = make([[("a", SILENT), ("b", CORRECT_VARIES)]], queue, filter="none", candidates=None)
    chosen, metrics = sampler.sample(1, "train", 2)
    assert sorted(groups_of(chosen)) == ["a", "b"]
    assert (refills, metrics) == ([], {})


@pytest.mark.parametrize("filter", ["none", "sum"])
def test_a_batch_lies_in_the_order_of_its_prompts_whatever_was_finished_first(queue, filter):
    groups = [("b", CORRECT_VARIES), ("a", CORRECT_VARIES), ("c", CORRECT_VARIES)]
    sampler, _ = make([groups], queue, filter=filter, candidates=3, needed=3)
    chosen, _ = sampler.sample(1, "train", 3)
    assert chosen.keys == [f"{uid}_{session}_0" for uid in "bac" for session in range(4)]
    assert [tag["response_len"] for tag in chosen.tags] == 3 * [10, 11, 12, 13]


def test_a_missing_channel_is_named(queue):
    sampler, _ = make([[("a", CORRECT_VARIES), ("b", SILENT), ("c", SILENT), ("d", SILENT)]], queue)
    for info in queue.infos.values():
        info.pop("format")
    with pytest.raises(ValueError, match=r"no channel 'format' for 16 of 16 responses; keys found: correctness"):
        sampler.sample(1, "train", 2)


def test_registration_and_the_guard_against_another_verl(monkeypatch):
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
    from verl.trainer.ppo.v1 import get_trainer_cls

    from harness import aggregation
    from harness.engines.verl import compatibility, plugin
    from harness.engines.verl.trainer import MultiRewardTrainer

    plugin.ensure_registered("dara_asym")
    assert {plugin.estimator_name(name) for name in aggregation.method_names()} <= set(ADV_ESTIMATOR_REGISTRY)
    assert get_trainer_cls("sync") is MultiRewardTrainer
    assert ADV_ESTIMATOR_REGISTRY["gdpo"].__module__ == "verl.trainer.ppo.core_algos"

    monkeypatch.setattr(compatibility, "installed_version", lambda: "0.9.2")
    assert "0.9.1" in compatibility.check()
    place = "verl.trainer.ppo.v1.trainer_base:PPOTrainer.step"
    monkeypatch.setitem(compatibility.SIGNATURES, place, ("self", "other"))
    with pytest.raises(
        compatibility.IncompatibleVerlError, match=r"PPOTrainer\.step takes .*pip install verl==0\.9\.1"
    ):
        compatibility.check()


def test_the_reward_manager_reports_all_channels_and_the_length():
    import asyncio

    import numpy as np
    import torch

    from harness.engines.verl.rewards import ChannelRewardManager

    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: "1 + 1 = \\boxed{2}")
    config = SimpleNamespace(harness={"length_limit": 2}, data=SimpleNamespace(max_response_length=4))

    item = SimpleNamespace(
        batch={"responses": torch.arange(4), "attention_mask": torch.tensor([1, 1, 1, 1, 1, 0])},
        non_tensor_batch={"data_source": "maths", "reward_model": {"ground_truth": "2"}},
    )

    class Data:
        def __getitem__(self, place):
            return self if isinstance(place, slice) else item

    async def score():
        return await ChannelRewardManager(config, tokenizer, None).run_single(Data())

    answer = asyncio.run(score())
    assert answer["reward_score"] == 1.0
    info = answer["reward_extra_info"]
    assert (info["correctness"], info["length"], info["response_tokens"]) == (1.0, 0.0, 3)
    assert info["failure/no_box"] == info["failure/truncated"] == 0.0
    assert np.isfinite(list(info.values())).all()

"""The trainer: what a step logs, what a filter keeps, who sees KL, and what stops a run."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from local_stub import CHANNELS, StubTask, comparable, one_attempt, stub_config

from harness.aggregation import method_names
from harness.config import MethodConfig, RunConfig
from harness.engines.local import generation, settings, trainer, update
from harness.engines.local.advantages import Aggregator
from harness.engines.local.policy import load_policy
from harness.engines.local.trainer import EXPORT, TrainingFailed, train_on
from harness.errors import UserError
from harness.rewards.batch import BatchScores
from harness.store import RunStore


def test_a_step_logs_the_whole_row(tmp_path: Path) -> None:
    row = one_attempt(tmp_path, stub_config("dara_sym", steps=1)).metrics.rows()[0]
    per_channel = ("reward", "density", "energy", "weight", "cap_hit", "missing")
    expected = {f"{key}/{channel}" for key in per_channel for channel in CHANNELS}
    expected |= {
        "schema",
        "attempt",
        "step",
        "seconds",
        "reward/score",
        "response_length",
        "responses_generated",
        "exceed",
    }
    expected |= {"kl", "entropy", "grad_norm", "clip_fraction", "loss"}
    expected |= {"failure/no_box", "failure/unclosed_box", "failure/truncated"}
    assert set(row) == expected
    assert row["responses_generated"] == 32
    assert row["reward/score"] == pytest.approx(row["reward/correctness"] + row["reward/length"])
    assert 0 < row["entropy"] <= np.log(12)
    assert row["kl"] == pytest.approx(0.0, abs=1e-6)
    assert row["energy/length"] == pytest.approx(8 * row["density/length"] * 3, rel=1e-4)


def test_it_learns(tmp_path: Path) -> None:
    run = one_attempt(tmp_path, stub_config(steps=40, learning_rate=1e-2))
    score = [row["reward/score"] for row in run.metrics.rows()]
    assert np.mean(score[-5:]) > np.mean(score[:5]) + 0.4
    final = json.loads((run.path / "evals" / "pocket" / "40.json").read_text())
    first = json.loads((run.path / "evals" / "pocket" / "0.json").read_text())
    assert final["metrics"]["reward/score"] > first["metrics"]["reward/score"]
    assert final["n"] == 6
    assert final["step"] == 40


def test_two_executions_agree_to_the_bit_and_two_seeds_do_not(tmp_path: Path) -> None:
    first = one_attempt(tmp_path / "1", stub_config(steps=3))
    second = one_attempt(tmp_path / "2", stub_config(steps=3))
    other = one_attempt(tmp_path / "3", stub_config(steps=3, seed=1))
    assert comparable(first) == comparable(second)
    assert comparable(first) != comparable(other)


def test_every_method_sees_the_same_first_batch(tmp_path: Path) -> None:
    rows = [one_attempt(tmp_path, stub_config(method, steps=1)).metrics.rows()[0] for method in ("grpo", "dara_asym")]
    for key in ("reward/correctness", "reward/length", "response_length", "density/length"):
        assert rows[0][key] == rows[1][key]
    assert rows[0]["grad_norm"] != rows[1]["grad_norm"]


@pytest.mark.parametrize("loss", ["ppo_clip", "dapo", "gspo", "dr_grpo"])
def test_every_policy_loss_trains(tmp_path: Path, loss: str) -> None:
    changes = {"loss_kl_coefficient": 0.01, "loss_kl_type": "mse"} if loss == "dapo" else {}
    rows = one_attempt(tmp_path, stub_config(loss=loss, steps=3, **changes)).metrics.rows()
    assert all(np.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in rows)
    assert ("loss_kl" in rows[0]) == (loss == "dapo")
    if loss == "dapo":
        assert rows[0]["loss_kl"] >= 0
        assert rows[2]["loss_kl"] > rows[0]["loss_kl"]


@pytest.mark.parametrize("method", method_names())
def test_every_method_trains(tmp_path: Path, method: str) -> None:
    config = stub_config(method, steps=2)
    rows = one_attempt(tmp_path, config).metrics.rows()
    assert len(rows) == 2
    assert all(row[f"weight/{channel}"] >= 0 for row in rows for channel in CHANNELS)


def test_a_method_gets_the_bounds_of_the_task_and_its_progress() -> None:
    config = stub_config("saw", steps=5)
    assert Aggregator(config).parameters(1)["bounds"] == {"correctness": (0.0, 1.0), "length": (0.0, 1.0)}
    schedule = dataclasses.replace(config, method=MethodConfig("rvpo", None, {"kappa": [0.5, 2.0], "progress": None}))
    aggregator = Aggregator(schedule)
    assert [aggregator.parameters(step)["progress"] for step in (1, 3, 5)] == [0.0, 0.5, 1.0]


def test_the_exported_policy_is_the_trained_one(tmp_path: Path) -> None:
    run = one_attempt(tmp_path, stub_config(steps=2))
    exported = load_policy(run.checkpoints / EXPORT)
    stored = torch.load(run.checkpoints / "step_000002.pt", weights_only=True)["policy"]
    assert all(torch.equal(stored[name], value) for name, value in exported.state_dict().items())
    start = load_policy(StubTask(tmp_path).checkpoint)
    assert not torch.equal(start.embedding, exported.embedding)


def test_rollouts_are_dumped_when_asked(tmp_path: Path) -> None:
    run = one_attempt(tmp_path, stub_config(steps=5, rollouts_every=2))
    assert sorted(path.name for path in run.rollouts.iterdir()) == ["2.jsonl", "4.jsonl"]
    lines = [json.loads(line) for line in (run.rollouts / "4.jsonl").read_text().splitlines()]
    assert len(lines) == 32
    assert set(lines[0]) == {
        *("step", "uid", "input", "output", "gts", "score", "attempt", "correctness", "length", "response_tokens")
    }
    row = run.metrics.rows()[3]
    assert np.mean([line["score"] for line in lines]) == pytest.approx(row["reward/score"])
    assert np.mean([line["response_tokens"] for line in lines]) == pytest.approx(row["response_length"])
    assert {line["uid"] for line in lines[:4]} == {lines[0]["uid"]}


# Who sees the KL penalty.


@pytest.mark.parametrize(
    ("method", "methods", "coefficient", "sees"),
    [
        ("grpo", "summed", 0.5, True),
        ("dr_grpo", "summed", 0.5, True),
        ("grpo", "none", 0.5, False),
        ("grpo", "summed", 0.0, False),
        ("gdpo", "summed", 0.5, False),
        ("dara_asym", "summed", 0.5, False),
        ("mo_grpo", "summed", 0.5, False),
    ],
)
def test_who_sees_kl(tmp_path: Path, method: str, methods: str, coefficient: float, sees: bool) -> None:
    without = stub_config(method, steps=4, reward_kl_coefficient=0.0, reward_kl_methods=methods)
    config = stub_config(method, steps=4, reward_kl_coefficient=coefficient, reward_kl_methods=methods)
    assert settings.sees_reward_kl(config) is sees
    changed = comparable(one_attempt(tmp_path / "with", config)) != comparable(
        one_attempt(tmp_path / "without", without)
    )
    assert changed is sees


def test_kl_in_the_reward_is_the_coefficient_times_the_sum_over_the_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = {}

    def spy(policy: object, optimizer: object, batches: list, advantages: np.ndarray, *rest: object) -> object:
        used.update(advantages=advantages, batches=batches)
        return update.update(policy, optimizer, batches, advantages, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(trainer, "update", spy)
    monkeypatch.setattr(
        trainer, "collect", lambda *given: collected.append(generation.collect(*given)) or collected[-1]
    )
    collected: list[generation.StepExperience] = []
    one_attempt(tmp_path, stub_config("dr_grpo", steps=3, reward_kl_coefficient=0.5))
    batch = collected[-1].generated
    kl = []
    for part in used["batches"]:
        difference = (part.old - part.reference).tolist()
        for length in part.lengths.tolist():
            kl.append(sum(difference[:length]))
            difference = difference[length:]
    assert max(map(abs, kl)) > 1e-3
    penalised = batch.channels["correctness"] + batch.channels["length"] - 0.5 * np.array(kl)
    groups = penalised.reshape(8, 4)
    expected = (groups - groups.mean(axis=1, keepdims=True)).reshape(-1)
    assert used["advantages"] == pytest.approx(expected, abs=1e-5)


def test_kl_never_enters_what_is_logged_of_the_channels(tmp_path: Path) -> None:
    config = stub_config("grpo", steps=3, reward_kl_coefficient=5.0)
    for row in one_attempt(tmp_path, config).metrics.rows():
        # Were the penalty in a channel, all its groups would be active.
        assert row["energy/correctness"] == pytest.approx(8 * row["density/correctness"] * 3, rel=1e-4)
        assert row["density/correctness"] < 1


# Filtering.


def test_a_filter_logs_density_before_and_after(tmp_path: Path) -> None:
    config = stub_config(steps=3, filter="any_channel", candidate_prompts=6, max_generation_batches=3)
    for row in one_attempt(tmp_path, config).metrics.rows():
        assert row["filter/needed"] == 8
        assert 2 <= row["filter/generation_batches"] <= 3
        assert row["density_before_filter/length"] <= row["density/length"] or row["density/correctness"] > 0
    assert row["responses_generated"] % 24 == 0


def test_the_cap_on_generation_batches_ends_the_search(tmp_path: Path) -> None:
    config = stub_config(steps=2, filter="sum", candidate_prompts=2, max_generation_batches=2)
    rows = one_attempt(tmp_path, config).metrics.rows()
    assert [row["filter/generation_batches"] for row in rows] == [2, 2]
    assert all(row["filter/kept"] <= 4 < row["filter/needed"] for row in rows)
    assert [row["responses_generated"] for row in rows] == [16, 32]


def test_a_step_without_any_kept_group_leaves_the_policy_alone(tmp_path: Path) -> None:
    task = StubTask(tmp_path)
    task.length_limit = 1000  # always met; and no reference is ever matched
    task.training_prompts = lambda seed, step, count: [  # type: ignore[method-assign]
        dataclasses.replace(prompt, reference="9") for prompt in StubTask.training_prompts(task, seed, step, count)
    ]
    config = stub_config(steps=2, filter="sum", candidate_prompts=8, max_generation_batches=2)
    run = RunStore(tmp_path / "runs").create(config)
    with run.lock("test"):
        run.begin_attempt({})
        train_on(config, run, task)
    rows = run.metrics.rows()
    assert [row["filter/kept"] for row in rows] == [0, 0]
    assert rows[0]["grad_norm"] is None
    assert rows[0]["kl"] is None
    assert rows[0]["density/length"] == 0.0
    assert torch.equal(load_policy(run.checkpoints / EXPORT).embedding, load_policy(task.checkpoint).embedding)


def test_the_sum_filter_drops_what_any_channel_keeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opposed = np.array([1.0, 0.0, 1.0, 0.0])

    def score(task: str, responses: list, references: list, lengths: list, **limits: object) -> BatchScores:
        half = len(responses) // 4 if len(responses) % 4 == 0 else 0
        first = np.tile(opposed, half) if half else np.zeros(len(responses))
        return BatchScores({"correctness": first, "length": 1 - first}, {})

    monkeypatch.setattr(generation, "score_batch", score)
    kept = {}
    for mode in ("sum", "any_channel"):
        config = stub_config(steps=1, filter=mode, candidate_prompts=8, max_generation_batches=1)
        row = one_attempt(tmp_path / mode, config).metrics.rows()[0]
        kept[mode] = row["filter/kept"]
        assert row["density_before_filter/correctness"] == 1.0
    assert kept == {"sum": 0, "any_channel": 8}


# What stops a run.


def failing_scores(value: float) -> object:
    def score(task: str, responses: list, references: list, lengths: list, **limits: object) -> BatchScores:
        length = np.ones(len(responses))
        length[5 % len(responses)] = value
        return BatchScores({"correctness": np.zeros(len(responses)), "length": length}, {})

    return score


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_not_finite_names_step_channel_and_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: float
) -> None:
    monkeypatch.setattr(generation, "score_batch", failing_scores(value))
    with pytest.raises(
        TrainingFailed, match=rf"step 0: channel length gave reward {value} for response 5 \(prompt 'q5'\)"
    ):
        one_attempt(tmp_path, stub_config(steps=2))


def test_a_loss_that_is_not_finite_names_step_and_update(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*given: object) -> object:
        surrogate = clipped(*given)  # type: ignore[arg-type]
        return dataclasses.replace(surrogate, loss=surrogate.loss * float("nan"))

    clipped = update.clipped_surrogate
    monkeypatch.setattr(update, "clipped_surrogate", broken)
    with pytest.raises(TrainingFailed, match=r"step 1, update 1 of 2: the loss is nan.*training.learning_rate=0.003"):
        one_attempt(tmp_path, stub_config(steps=2))


def test_a_learning_rate_that_diverges_fails_loudly_and_keeps_what_was_stored(tmp_path: Path) -> None:
    config = stub_config(steps=30, learning_rate=1e30, checkpoint_every=1)
    with pytest.raises(TrainingFailed, match=r"step \d+.*the policy has diverged, lower training.learning_rate=1e\+30"):
        one_attempt(tmp_path, config)
    run = RunStore(tmp_path / "runs").get(RunStore(tmp_path / "runs").create(config).run_id)
    assert all(np.isfinite(row["loss"]) for row in run.metrics.rows())


def _training(**changes: object) -> RunConfig:
    return stub_config(**changes)  # type: ignore[arg-type]


def _with(config: RunConfig, part: str, **changes: object) -> RunConfig:
    return dataclasses.replace(config, **{part: dataclasses.replace(getattr(config, part), **changes)})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_with(_training(), "policy_loss", ratio="tokn"), "policy_loss.ratio=tokn.*did you mean 'token'"),
        (_with(_training(), "policy_loss", reduction="mean"), "policy_loss.reduction=mean"),
        (_with(_training(), "policy_loss", clip_low=1.5), "clip_low=1.5"),
        (_with(_training(), "engine", device="gpu"), "engine.device=gpu"),
        (_with(_training(), "engine", options={"treads": 2}), "engine.options.treads"),
        (_with(_training(), "model", kind="huggingface"), "set scale=pocket, or engine=verl"),
        (_with(_training(), "output", checkpoint_every=0), "output.checkpoint_every=0"),
        (_training(filter="summ"), "training.filter=summ.*did you mean 'sum'"),
        (_training(filter="sum"), "training.candidate_prompts"),
        (_training(filter="sum", candidate_prompts=4), "training.max_generation_batches"),
        (_training(loss_kl_coefficient=0.1), "loss_kl_type"),
        (_training(loss_kl_type="k4"), "training.loss_kl_type=k4"),
        (_training(temperature=0.0), "training.temperature=0.0"),
        (_training(top_p=0.0), "training.top_p=0.0"),
        (_training(learning_rate=float("nan")), "training.learning_rate=nan"),
        (_training(reward_kl_methods="all"), "training.reward_kl_methods=all"),
        (_training(max_response_tokens=60), "= 68 exceed the 64 positions"),
        (_training(max_prompt_tokens=2), "more than training.max_prompt_tokens=2"),
        (dataclasses.replace(_training(), method=MethodConfig("grpoo", None, {})), "grpoo"),
        (dataclasses.replace(_training(), method=MethodConfig("dara_sym", None, {"w_max": 0.5})), "w_max"),
        (dataclasses.replace(_training(), method=MethodConfig("gdpo", None, {"weights": {"format": 1}})), "weights"),
        (dataclasses.replace(_training(), seed=-1), "seed=-1"),
    ],
)
def test_a_mistake_in_the_configuration_is_one_line(tmp_path: Path, config: RunConfig, message: str) -> None:
    run = RunStore(tmp_path / "runs").create(stub_config())
    with run.lock("test"):
        run.begin_attempt({})
        with pytest.raises(UserError, match=message) as error:
            train_on(config, run, StubTask(tmp_path))
    assert "\n" not in str(error.value)
    assert run.metrics.last_step() == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no usable GPU"):
        one_attempt(tmp_path, stub_config(device="cuda"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_first_step_on_a_gpu_resembles_that_on_the_cpu(tmp_path: Path) -> None:
    rows = [one_attempt(tmp_path / name, stub_config(device=name, steps=2)).metrics.rows() for name in ("cpu", "cuda")]
    assert rows[0][0]["reward/score"] == pytest.approx(rows[1][0]["reward/score"], abs=0.1)
    assert rows[0][0]["grad_norm"] == pytest.approx(rows[1][0]["grad_norm"], rel=0.1)
    again = one_attempt(tmp_path / "again", stub_config(device="cuda", steps=2))
    assert comparable(again) == [{key: row[key] for key in row if key not in ("attempt", "seconds")} for row in rows[1]]


def test_torch_settings_are_restored(tmp_path: Path) -> None:
    torch.set_num_threads(2)
    try:
        one_attempt(tmp_path, stub_config(steps=1))
        assert torch.get_num_threads() == 2
        assert not torch.are_deterministic_algorithms_enabled()
    finally:
        torch.set_num_threads(1)

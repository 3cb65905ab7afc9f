"""Real trainings by verl on a CPU, through the harness's own command: each start of verl takes about a minute on two
idle cores (Ray, eight imports of torch), so each run is looked at from all sides."""

from __future__ import annotations

import os
import re
import signal

import numpy as np
import pandas
import pytest
from verl_cases import (
    SECONDS,
    log_of,
    needs_verl,
    only_run,
    processes_of,
    rows_of,
    run_plain,
    start,
    train,
    wait_for,
)

from harness import aggregation
from harness.diagnose.columns import Choice
from harness.diagnose.reading import read_log
from harness.diagnose.report import diagnose
from harness.engines.verl.estimators import SUMMED_REWARD_METHODS
from harness.store import Run
from harness.store.lock import read_owner

pytestmark = needs_verl

CHANNELS = ["correctness", "format"]
GROUP, RESPONSES = 4, 64


def check_advantages(run: Run, step: int, responses: int = RESPONSES) -> list[dict]:
    """The advantages that verl trained with are those of aggregate() on the rewards of the same file; its rows."""
    rows = rows_of(run.rollouts / f"{step}.jsonl")
    method = run.config.method.name
    rewards: dict = {name: [row[name] for row in rows] for name in CHANNELS}
    if method in SUMMED_REWARD_METHODS:  # these see the KL penalty too
        rewards = {"sum": [sum(row[name] for name in CHANNELS) + row["reward_kl"] for row in rows]}
    expected = aggregation.aggregate(
        method,
        rewards,
        [row["uid"] for row in rows],
        channels=list(rewards),
        lengths=[row["response_tokens"] for row in rows],
        normalization=run.config.task.normalization,
        **run.config.method.parameters,
    ).advantages
    assert len(rows) == responses
    np.testing.assert_allclose([row["advantage"] for row in rows], expected, rtol=1e-6, atol=1e-6)
    assert np.abs(expected).max() > 0
    return rows


def check_evaluations(run: Run, steps: list[int]) -> None:
    assert run.evaluations.steps("pocket") == steps
    for step in steps:
        stored = run.evaluations.read("pocket", step)
        assert stored["n"] == 16
        names = {"reward/correctness", "reward/format", "reward/score", "failure/parse_error", "response_length"}
        assert names <= stored["metrics"].keys()
        assert -3.0 <= stored["metrics"]["reward/correctness"] <= 3.0


def test_a_filtered_run_killed_in_the_middle_continues_from_its_last_checkpoint(tmp_path):
    settings = (
        "method=dara_sym",
        "training.steps=4",
        "training.filter=any_channel",
        "training.candidate_prompts=12",
        "training.max_generation_batches=2",
    )
    command = start(tmp_path, *settings)
    try:
        wait_for(lambda: list(tmp_path.glob("*/checkpoints/latest_checkpointed_iteration.txt")), SECONDS, command)
        run = only_run(tmp_path)
        owner = read_owner(run.path)
        assert owner is not None
        os.kill(owner.process.pid, signal.SIGKILL)
        assert command.wait(SECONDS) == 1
    finally:
        command.kill()
        command.wait()
    wait_for(lambda: not processes_of(run), 60)  # verl does not go on without its owner
    assert run.status().state == "interrupted"
    before = run.metrics.read().lines

    again = train(tmp_path, *settings)
    assert again.returncode == 0, (run.status().reason, again.stderr[-2000:], log_of(run))
    assert run.status().state == "done"
    assert run.metrics.read().lines[: len(before)] == before
    rows = run.metrics.rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4]
    assert (rows[0]["attempt"], rows[-1]["attempt"]) == (1, 2)
    for row in rows:
        kinds = ("reward", "density", "density_before_filter", "energy", "weight", "cap_hit", "missing")
        assert {f"{kind}/{name}" for kind in kinds for name in CHANNELS} <= row.keys()
        assert {"reward/score", "response_length", "entropy", "grad_norm", "clip_fraction", "seconds"} <= row.keys()
        assert row["kl"] is not None
        assert row["filter/needed"] == 16
        assert row["filter/candidates"] == 12 * row["filter/generation_batches"]
        assert row["filter/kept"] >= 16 or row["filter/generation_batches"] == 2
        assert row["density/correctness"] > row["density_before_filter/correctness"]
        check_advantages(run, row["step"], GROUP * min(16, row["filter/kept"]))
    assert any(row["filter/kept"] < 16 for row in rows), "no step came to the limit of generation batches"
    generated = [GROUP * row["filter/candidates"] for row in rows]
    assert [row["responses_generated"] for row in rows] == np.cumsum(generated).tolist()
    check_evaluations(run, [0, 2, 4])
    assert sorted(path.name for path in run.checkpoints.glob("global_step_*")) == ["global_step_4"]
    assert "python -m verl.trainer.main_ppo" in (run.path / "verl" / "command.sh").read_text()


def test_grpo_is_verls_own_with_the_kl_penalty_and_its_export_generates(tmp_path):
    result = train(tmp_path, "method=grpo", "training.steps=3")
    run = only_run(tmp_path)
    assert result.returncode == 0, (run.status().reason, result.stderr[-2000:], log_of(run))
    assert [row["step"] for row in run.metrics.rows()] == [1, 2, 3]
    for row in run.metrics.rows():
        rollouts = check_advantages(run, row["step"])
        check_penalty(run, row, rollouts)
        np.testing.assert_allclose([item["advantage"] for item in rollouts], of_verls_grpo(rollouts), atol=1e-5)
    assert any(item["reward_kl"] for item in rollouts)
    check_evaluations(run, [0, 2, 3])
    check_export(run)


def check_penalty(run: Run, row: dict, rollouts: list[dict]) -> None:
    """The penalty of all responses together is the step's mean KL of a token, times tokens and coefficient."""
    tokens = sum(item["response_tokens"] for item in rollouts)
    expected = -run.config.training.reward_kl_coefficient * row["kl"] * tokens
    rounding = 1e-6 * len(rollouts)  # verl adds it to the score in float32
    assert sum(item["reward_kl"] for item in rollouts) == pytest.approx(expected, rel=1e-3, abs=rounding)


def of_verls_grpo(rollouts: list[dict]) -> list[float]:
    """The advantages of the estimator that verl itself calls grpo, on the summed reward with its penalty."""
    import torch
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    totals = [[sum(item[name] for name in CHANNELS) + item["reward_kl"]] for item in rollouts]
    uids = np.array([item["uid"] for item in rollouts], dtype=object)
    rewards = torch.tensor(totals, dtype=torch.float64)
    return compute_grpo_outcome_advantage(rewards, torch.ones_like(rewards), uids)[0][:, 0].tolist()


def check_export(run: Run) -> None:
    """The exported model is another than the one training began with; it and its tokenizer load and answer a prompt."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from harness.pocket import pocket_task

    tokenizer = AutoTokenizer.from_pretrained(run.checkpoints / "huggingface")
    model = AutoModelForCausalLM.from_pretrained(run.checkpoints / "huggingface")
    began = AutoModelForCausalLM.from_pretrained(pocket_task(run.config).checkpoint)
    changed = [not torch.equal(*pair) for pair in zip(model.parameters(), began.parameters(), strict=True)]
    assert all(changed)
    messages = list(pandas.read_parquet(run.path / "verl" / "held_out.parquet")["prompt"][0])
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    assert prompt["input_ids"][0].tolist() == pocket_task(run.config).tokenizer.encode_prompt(messages[0]["content"])
    answer = model.generate(**prompt, max_new_tokens=96, do_sample=False)[0, prompt["input_ids"].shape[1] :]
    assert answer[-1] == tokenizer.eos_token_id
    assert "<tool_call>" in tokenizer.decode(answer)


def test_a_plain_user_of_verl_needs_two_settings(tmp_path):
    result = run_plain(tmp_path, "[correctness,format]")
    steps = [line for line in result.stdout.splitlines() if "density/format:" in line]
    assert result.returncode == 0, (result.stdout[-3000:], result.stderr[-3000:])
    assert len(steps) == 2, result.stdout[-3000:]
    assert all(f"weight/{name}:" in line for line in steps for name in CHANNELS)
    log = read_log([tmp_path / "rollouts"], Choice())
    assert (log.columns.group, log.columns.channels, log.warnings) == ("group_uid", tuple(CHANNELS), [])
    found = [float(re.search(r"density/format:([\d.]+)", line)[1]) for line in steps]
    report = diagnose(log, methods=["gdpo"])
    assert [step.channels["format"].density for step in report.steps] == pytest.approx(found)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gdpo", "dara_asym", "dara_sym", "dvao", "gd2po_hard"])
def test_each_other_method_of_the_main_study_trains_to_its_end(tmp_path, method):
    result = train(tmp_path, f"method={method}", "training.steps=2")
    run = only_run(tmp_path)
    assert result.returncode == 0, (run.status().reason, result.stderr[-2000:], log_of(run))
    assert run.status().state == "done"
    assert [row["step"] for row in run.metrics.rows()] == [1, 2]
    for step in (1, 2):
        check_advantages(run, step)
    check_evaluations(run, [0, 2])

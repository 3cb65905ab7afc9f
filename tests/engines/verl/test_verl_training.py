"""Real trainings by verl on a CPU: each about a minute and a half on two idle cores (Ray, eight imports of torch)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from verl_cases import ROOT, SECONDS, SMALL, log_of, needs_verl, only_run, processes_of, rows_of, run_plain, train

from harness import aggregation
from harness.engines.verl.estimators import SUMMED_REWARD_METHODS
from harness.store import Run, RunStore

pytestmark = needs_verl

CHANNELS = ["correctness", "format"]


def check_advantages(run: Run, step: int, *, filtered: bool = False) -> None:
    """The advantages that verl trained with are those of aggregate() on the rewards of the same file."""
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
    assert filtered or len(rows) == 64
    assert len(rows) % 4 == 0
    np.testing.assert_allclose([row["advantage"] for row in rows], expected, rtol=1e-6, atol=1e-6)
    assert np.abs(expected).max() > 0


def test_a_filtered_run_is_stored_whole_and_its_advantages_are_those_of_aggregate(tmp_path):
    result = train(
        tmp_path,
        "method=dara_sym",
        "training.steps=2",
        "training.filter=any_channel",
        "training.candidate_prompts=20",
        "training.max_generation_batches=2",
    )
    run = only_run(tmp_path)
    assert run.status().state == "done", (run.status().reason, result.stderr[-2000:], log_of(run))
    rows = run.metrics.rows()
    assert [row["step"] for row in rows] == [1, 2]
    for row in rows:
        kinds = ("reward", "density", "density_before_filter", "energy", "weight", "cap_hit", "missing")
        assert {f"{kind}/{name}" for kind in kinds for name in CHANNELS} <= row.keys()
        assert {"reward/score", "response_length", "entropy", "grad_norm", "clip_fraction", "seconds"} <= row.keys()
        assert row["kl"] is not None
        assert row["filter/needed"] == 16
        assert 1 <= row["filter/generation_batches"] <= 2
        assert row["density/correctness"] > 0
    generated = [int(80 * row["filter/generation_batches"]) for row in rows]
    assert [row["responses_generated"] for row in rows] == [generated[0], sum(generated)]
    check_advantages(run, 2, filtered=True)
    assert run.evaluations.steps("pocket") == [0, 2]
    final = run.evaluations.read("pocket", 2)
    assert final["n"] == 16
    assert {"reward/correctness", "reward/format", "failure/parse_error"} <= final["metrics"].keys()
    assert sorted(path.name for path in run.checkpoints.glob("global_step_*")) == ["global_step_2"]
    assert (run.checkpoints / "huggingface" / "model.safetensors").stat().st_size > 100_000
    assert "python -m verl.trainer.main_ppo" in (run.path / "verl" / "command.sh").read_text()


def test_killed_in_the_middle_it_continues_from_the_last_checkpoint(tmp_path):
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from harness.compose import CONF, Composer, register_methods

    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        overrides = [text for text in SMALL if not text.startswith("hydra")]
        config = Composer(GlobalHydra.instance().config_loader()).compose(
            [*overrides, "method=gdpo", "training.steps=6", f"output.runs={tmp_path}"]
        )
    run = RunStore(tmp_path).create(config)
    command = [sys.executable, "-m", "harness.launch.worker", str(run.path)]
    worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    mark = run.checkpoints / "latest_checkpointed_iteration.txt"
    limit = time.monotonic() + SECONDS
    while not mark.exists() and worker.poll() is None and time.monotonic() < limit:
        time.sleep(0.2)
    assert mark.exists(), (run.status().reason, log_of(run))
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    limit = time.monotonic() + 60
    while processes_of(run) and time.monotonic() < limit:
        time.sleep(0.5)
    assert not processes_of(run), "verl went on without its owner"
    assert run.status().state == "interrupted"
    before = run.metrics.read().lines

    subprocess.run(command, cwd=ROOT, timeout=SECONDS, check=False, capture_output=True)
    assert run.status().state == "done", (run.status().reason, log_of(run))
    lines = run.metrics.read().lines
    assert lines[: len(before)] == before
    rows = run.metrics.rows()
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row["responses_generated"] for row in rows] == [64, 128, 192, 256, 320, 384]
    assert (rows[0]["attempt"], rows[-1]["attempt"]) == (1, 2)
    assert sorted(int(path.stem) for path in run.rollouts.glob("*.jsonl")) == [1, 2, 3, 4, 5, 6]
    assert run.evaluations.steps("pocket") == [0, 2, 4, 6]
    check_advantages(run, 6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["grpo", "gdpo", "dara_asym", "dara_sym", "dvao", "gd2po_hard"])
def test_each_method_of_the_main_study_trains_to_its_end(tmp_path, method):
    result = train(tmp_path, f"method={method}", "training.steps=3")
    run = only_run(tmp_path)
    assert run.status().state == "done", (run.status().reason, result.stderr[-2000:], log_of(run))
    assert [row["step"] for row in run.metrics.rows()] == [1, 2, 3]
    for step in (1, 2, 3):
        check_advantages(run, step)
    assert run.evaluations.steps("pocket") == [0, 2, 3]
    assert run.evaluations.read("pocket", 3)["metrics"]["reward/correctness"] is not None


def test_a_plain_user_of_verl_needs_two_settings(tmp_path):
    result = run_plain(tmp_path, "[correctness,format]")
    steps = [line for line in result.stdout.splitlines() if "density/format:" in line]
    assert result.returncode == 0, (result.stdout[-3000:], result.stderr[-3000:])
    assert len(steps) == 2, result.stdout[-3000:]
    assert all(f"weight/{name}:" in line for line in steps for name in CHANNELS)


@pytest.mark.slow
def test_a_channel_typo_stops_a_plain_users_run_at_the_first_step(tmp_path):
    result = run_plain(tmp_path, "[correctness,fromat]")
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "no channel 'fromat' for 32 of 32 responses; keys found: correctness, format, score" in text
    assert "density/format:" not in result.stdout

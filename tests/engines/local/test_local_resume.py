"""A run killed at any moment and started again is, bit for bit, the run that was never killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from local_stub import SPEC, StubTask, comparable, one_attempt, stub_config

from harness.engines.local import checkpoints
from harness.engines.local.policy import Policy, save_policy
from harness.engines.local.trainer import EXPORT, train_on
from harness.errors import UserError
from harness.store import Run, RunStore

CPU = torch.device("cpu")


def outcome(run: Run) -> dict[str, object]:
    """Everything a run computes: metrics, evaluations, weights, optimiser."""
    evaluations = {path.name: json.loads(path.read_text()) for path in (run.path / "evals" / "pocket").glob("*.json")}
    checkpoint = checkpoints.latest(run.checkpoints, CPU, print)
    assert checkpoint is not None
    return {
        "metrics": comparable(run),
        "evaluations": evaluations,
        "weights": (run.checkpoints / EXPORT / "model.safetensors").read_bytes(),
        "moments": [moment.numpy().tobytes() for name in ("means", "squares") for moment in checkpoint.optimizer[name]],
        "rollouts": {path.name: _lines(path) for path in run.rollouts.glob("*.jsonl")},
    }


def _lines(path: Path) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: line[key] for key in line if key != "attempt"} for line in lines]


@pytest.mark.parametrize(
    ("seed", "method", "changes"),
    [
        (0, "dara_asym", {}),
        pytest.param(
            1,
            "grpo",
            {"filter": "any_channel", "candidate_prompts": 6, "max_generation_batches": 2},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_killed_at_random_moments_and_continued(tmp_path: Path, seed: int, method: str, changes: dict) -> None:
    keywords = {"method": method, "seed": seed, "steps": 14, "checkpoint_every": 3, "rollouts_every": 4, **changes}
    config = stub_config(**keywords)
    expected = outcome(one_attempt(tmp_path / "whole", config))
    assert set(expected["evaluations"]) == {"0.json", "3.json", "6.json", "9.json", "12.json", "14.json"}
    random = np.random.default_rng(seed)
    kills = [[step, random.uniform(0, 0.05)] for step in sorted(random.integers(0, 13, 4).tolist())]
    script = Path(__file__).with_name("local_kills.py")
    command = [sys.executable, str(script), str(tmp_path / "killed"), json.dumps(keywords), json.dumps(kills)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) >= 3
    continued = RunStore(tmp_path / "killed" / "runs").create(config)
    assert len({row["attempt"] for row in continued.metrics.rows()}) > 1
    actual = outcome(continued)
    for part in expected:
        assert actual[part] == expected[part], part
    assert continued.status().state == "done"


def test_stopped_at_every_step_and_continued(tmp_path: Path) -> None:
    config = stub_config(steps=5)
    expected = outcome(one_attempt(tmp_path / "whole", config))
    store = RunStore(tmp_path / "stopped" / "runs")
    for step in range(1, 6):
        run = store.create(config)
        with run.lock("test"):
            run.begin_attempt({})
            task = StubTask(tmp_path / "stopped")
            train_on(config, run, task, lambda run=run, step=step: run.metrics.last_step() >= step)
            run.end_attempt("interrupted", None)
        assert run.metrics.last_step() == step
        assert checkpoints.latest(run.checkpoints, CPU, print).step == step
    assert outcome(run) == expected


def test_a_run_that_is_asked_to_stop_at_once_does_no_step(tmp_path: Path) -> None:
    run = RunStore(tmp_path / "runs").create(stub_config())
    with run.lock("test"):
        run.begin_attempt({})
        train_on(run.config, run, StubTask(tmp_path), lambda: True)
    assert run.metrics.last_step() == 0


def test_a_finished_run_started_again_repairs_its_export_and_evaluation(tmp_path: Path) -> None:
    config = stub_config(steps=4)
    run = one_attempt(tmp_path, config)
    expected = outcome(run)
    evaluation = run.path / "evals" / "pocket" / "4.json"
    evaluation.unlink()
    (run.checkpoints / EXPORT / "model.safetensors").unlink()
    assert outcome(one_attempt(tmp_path, config)) == expected
    assert len(run.metrics.read().lines) == 4


def test_a_run_never_continues_from_another_start(tmp_path: Path) -> None:
    config = stub_config(steps=4)
    store = RunStore(tmp_path / "runs")
    run = store.create(config)
    with run.lock("test"):
        run.begin_attempt({})
        train_on(config, run, StubTask(tmp_path), lambda: run.metrics.last_step() >= 2)
        assert run.manifest.read()["records"]["model_sha256"] == checkpoints.latest(run.checkpoints, CPU, print).start
    other = Policy(SPEC, torch.Generator().manual_seed(6))
    save_policy(other, StubTask.tokenizer, StubTask(tmp_path).checkpoint)
    with run.lock("test"), pytest.raises(UserError, match="began with other weights"):
        train_on(config, run, StubTask(tmp_path))


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run = one_attempt(tmp_path, stub_config(steps=7, checkpoint_every=2))
    assert sorted(path.name for path in run.checkpoints.iterdir()) == [EXPORT, "step_000007.pt"]


def test_checkpoints_that_are_evaluated_later_are_kept(tmp_path: Path) -> None:
    """Also of steps at which none is due, and the last checkpoint is still the one that training continues from."""
    run = one_attempt(tmp_path, stub_config(steps=7, checkpoint_every=3, evaluate_at=(0, 2, 3)))
    names = [EXPORT, "step_000002.pt", "step_000003.pt", "step_000007.pt"]
    assert sorted(path.name for path in run.checkpoints.iterdir()) == names
    plain = one_attempt(tmp_path / "plain", stub_config(steps=7, checkpoint_every=3))
    assert plain.run_id == run.run_id
    found, expected = (
        [{key: value for key, value in row.items() if key != "seconds"} for row in item.metrics.rows()]
        for item in (run, plain)
    )
    assert found == expected


def test_an_unreadable_checkpoint_falls_back_to_the_one_before(tmp_path: Path) -> None:
    state = checkpoints.Checkpoint(2, "", 64, {"weight": torch.ones(3)}, {})
    for step in (2, 4):
        checkpoints.save(tmp_path, checkpoints.Checkpoint(step, "", 32 * step, state.policy, {}), keep=2)
    newest = tmp_path / "step_000004.pt"
    newest.write_bytes(newest.read_bytes()[:200])
    reports: list[str] = []
    assert checkpoints.latest(tmp_path, CPU, reports.append).step == 2
    assert "step_000004.pt cannot be read" in reports[0]
    (tmp_path / "step_000002.pt").write_bytes(b"")
    with pytest.raises(UserError, match="no checkpoint can be read; delete"):
        checkpoints.latest(tmp_path, CPU, print)


def test_a_checkpoint_never_unpickles_code(tmp_path: Path) -> None:
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple:
            return (os.mkdir, (str(tmp_path / "exploded"),))

    (tmp_path / "step_000001.pt").write_bytes(pickle.dumps(Bomb(), protocol=2))
    with pytest.raises(UserError):
        checkpoints.latest(tmp_path, CPU, print)
    assert not (tmp_path / "exploded").exists()

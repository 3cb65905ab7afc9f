"""Chains on a real cluster: evaluations (benchmark=pocket) follow their training, a collect job follows all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from slurm_shell import Shell, check_run

pytestmark = pytest.mark.slurm


def evaluations(shell: Shell) -> list[dict[str, Any]]:
    return [item["evaluations"]["pocket"] for item in shell.status().values()]


def wait_empty(shell: Shell, seconds: float = 180) -> None:
    shell.wait(lambda: not shell.queue(), seconds, "the queue to be empty")


def test_two_runs_are_trained_evaluated_and_collected(shell: Shell) -> None:
    wanted = ("method=gdpo,grpo", "training.evaluate_every=100", "evaluate_at=[0,2,3,6]", "hydra/launcher=slurm")
    wanted += ("hydra.launcher.collect=true", "hydra.launcher.time=60", "output.checkpoint_every=4")
    output = shell.train(*wanted)
    assert "2 runs" in output
    assert "2 evaluations" in output
    assert "8 evaluations (pocket)" in output
    assert shell.sbatch_calls() == 3, "training, evaluations, collect"
    first = evaluations(shell)
    assert {item["state"] for item in first} <= {"queued", "running", "done"}
    assert "submitted" not in shell.train(*wanted)
    wait_empty(shell)
    assert shell.states() == ["done", "done"]
    assert [(item["state"], item["stored"]) for item in evaluations(shell)] == [("done", [0, 2, 3, 6])] * 2
    for run in shell.folders():
        assert sorted(path.name for path in (run / "checkpoints").glob("*.pt"))[:2] == [
            "step_000002.pt",
            "step_000003.pt",
        ]
        lines = (run / "evals" / "pocket" / "attempts.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [2, 3], "the engine evaluates the first and last step"
    collected = pd.read_parquet(shell.folder / "results" / "evals.parquet")
    ours = collected[(collected["source"] == "ours") & (collected["metric"] == "reward/score")]
    assert sorted(ours["step"]) == [0, 0, 2, 2, 3, 3, 6, 6]
    assert "submitted" not in shell.train(*wanted)
    assert shell.sbatch_calls() == 3
    # What the engine itself measures at step 3 is what the job measured on the checkpoint that was kept.
    shell.train("method=gdpo", "output.checkpoint_every=4", "training.evaluate_every=3", "hydra.launcher.workers=1")
    values = [read(run, 3) for run in shell.folders() if "-gdpo-" in run.name]
    assert len(values) == 2
    assert values[0] == pytest.approx(values[1], abs=1e-12)


def read(run: Path, step: int) -> dict[str, float]:
    metrics = json.loads((run / "evals" / "pocket" / f"{step}.json").read_text())["metrics"]
    return {key: value for key, value in metrics.items() if key.startswith("reward/")}


def test_training_that_fails_leaves_the_evaluation_not_run_and_status_says_why(shell: Shell) -> None:
    """The stand-in engine; step 0 is the pocket model itself, whoever trains."""
    wanted = ("method=gdpo,grpo", "evaluate_at=[0]", "training.evaluation_prompts=8")
    shell.launch(*wanted, "+engine.options.fail_at=3")
    assert shell.sbatch_calls() == 2
    wait_empty(shell)
    for status in shell.status().values():
        assert status["state"] == "failed"
        found = status["evaluations"]["pocket"]
        assert found["state"] == "blocked"
        assert "not run: the training is failed" in found["reason"]
        assert "ValueError: no luck at step 3" in found["reason"]
    output = shell.launch(*wanted, "+engine.options.fail_at=3", expect=1)
    assert shell.sbatch_calls() == 2
    assert "2 evaluations wait for trainings that are not in the queue" in output
    shell.launch(*wanted, "retry=true")
    assert shell.sbatch_calls() == 4
    shell.wait_done(2)
    wait_empty(shell)
    assert [item["state"] for item in evaluations(shell)] == ["done", "done"]


def test_cancelled_training_is_submitted_again_with_its_evaluation(shell: Shell) -> None:
    settings = {"steps": 20, "seconds": 0.25}
    wanted = ("method=gdpo", "evaluate_at=[0]", "training.evaluation_prompts=8")
    shell.launch(*wanted, **settings)
    run = shell.wait_for_step(3)
    training = next(job for job in shell.queue() if job in shell.cluster.run("squeue", "-h", "-t", "R", "-o", "%A"))
    assert [item["state"] for item in evaluations(shell)] == ["queued"]
    assert "Dependency" in evaluations(shell)[0]["reason"]
    shell.cluster.run("scancel", training)
    shell.wait(lambda: training not in shell.queue(), 30, "the job to end")
    shell.launch(*wanted, **settings)
    wait_empty(shell)
    check_run(run, steps=20, repeated=2)
    assert [item["state"] for item in evaluations(shell)] == ["done"]
    assert "submitted" not in shell.launch(*wanted, **settings)


def test_evaluations_of_runs_that_are_done_fail_are_shown_and_repeated(shell: Shell) -> None:
    shell.launch("method=gdpo")
    shell.wait_done(1)
    wanted = ("method=gdpo", "evaluate_at=[0,1]", "training.evaluation_prompts=128")
    output = shell.launch(*wanted)
    assert "2 evaluations (pocket)" in output
    wait_empty(shell)
    (found,) = evaluations(shell)
    assert found["state"] == "failed"
    assert "step 1: run" in found["reason"]
    assert "has no checkpoint of step 1" in found["reason"]
    assert found["stored"] == [0]
    calls = shell.sbatch_calls()
    assert "retry=true evaluates it again" in shell.launch(*wanted, expect=1)
    assert shell.sbatch_calls() == calls
    shell.launch(*wanted, "retry=true")
    assert shell.sbatch_calls() == calls + 1


def test_collect_job_is_cancelled_with_the_last_run(shell: Shell) -> None:
    wanted = ("method=gdpo,grpo", "evaluate_at=[0]", "training.evaluation_prompts=8")
    settings: dict[str, Any] = {"steps": 100, "seconds": 0.5, "launcher": ("collect=true",)}
    shell.launch(*wanted, **settings)
    assert len(shell.queue()) == 5, "two trainings, two evaluations, the collect job"
    shell.wait(lambda: shell.states() == ["running", "running"], 60, "both to run")
    cancel = ("cancel", "--runs", str(shell.runs))
    output = shell.harness(*cancel, "*-gdpo-*")
    assert "2 jobs cancelled" in output
    assert "collect" not in output
    shell.wait(lambda: len(shell.queue()) == 3, 30, "the other run's jobs and the collect job to be left")
    assert "no jobs to cancel" in shell.harness(*cancel, "*-gdpo-*")
    output = shell.harness(*cancel, "*")
    assert "3 jobs cancelled" in output
    assert ": collect" in output
    wait_empty(shell, 60)
    assert shell.states() == ["interrupted", "interrupted"]
    assert not (shell.folder / "results").exists()
    assert shell.sbatch_calls() == 3
    shell.launch(*wanted, **settings)
    assert len(shell.queue()) == 5

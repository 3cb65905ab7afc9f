"""The state of a run follows from what is stored, and the reason says from what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from store_configs import small_config

from harness.config import RunConfig
from harness.store import Run, RunStore
from harness.store.status_command import common_prefix
from harness.store.status_sources import statuses

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(store: RunStore, config: RunConfig) -> Run:
    return store.create(config)


def train(run: Run, steps: int, outcome: str | None = None, error: str | None = None) -> None:
    with run.lock("test"):
        run.begin_attempt({})
        for step in range(run.metrics.last_step() + 1, steps + 1):
            run.metrics.append(step, {"reward/format": 0.5})
        if outcome:
            run.end_attempt(outcome, error)


def evaluate(run: Run, step: int) -> None:
    run.write_evaluation("pocket", step, {"n": 1, "metrics": {}})


def test_new(run: Run) -> None:
    status = run.status()
    assert (status.state, status.reason, status.step, status.steps) == ("new", "not started", 0, 5)


def test_running_while_the_lock_is_held(run: Run) -> None:
    with run.lock("worker"):
        run.begin_attempt({})
        run.metrics.append(1, {})
        status = run.status()
        assert (status.state, status.step) == ("running", 1)
        assert f"step 1 of 5, worker (pid {os.getpid()} on" in status.reason


def test_interrupted_says_where(run: Run) -> None:
    train(run, 3, "interrupted", "asked to stop (SIGTERM)")
    assert run.status().state == "interrupted"
    assert run.status().reason == "attempt 1 stopped: asked to stop (SIGTERM), step 3 of 5"


def test_killed_is_interrupted(run: Run) -> None:
    train(run, 3)
    assert run.status().state == "interrupted"
    assert run.status().reason.startswith(f"attempt 1 (pid {os.getpid()} on ")
    assert run.status().reason.endswith("ended without a word, step 3 of 5")


def test_failed_gives_the_error(run: Run) -> None:
    train(run, 3, "failed", "ValueError: no")
    status = run.status()
    assert (status.state, status.startable) == ("failed", False)
    assert status.reason == "attempt 1 failed at step 3 of 5: ValueError: no"


@pytest.mark.parametrize("outcome", ["finished", "interrupted", None])
def test_done_is_decided_from_metrics_and_the_final_evaluation(run: Run, outcome: str | None) -> None:
    train(run, 5, outcome)
    assert run.status().state == "interrupted"
    assert "evals/pocket/5.json is missing" in run.status().reason
    evaluate(run, 4)
    assert run.status().state == "interrupted"
    evaluate(run, 5)
    assert run.status().state == "done"


def test_an_outcome_of_finished_does_not_make_it_done(run: Run) -> None:
    train(run, 4, "finished")
    evaluate(run, 5)
    assert run.status().state == "interrupted"


def test_done_stays_done_after_a_later_failure(run: Run) -> None:
    train(run, 5, "failed", "x")
    evaluate(run, 5)
    assert run.status().state == "done"


def test_a_scheduler_is_heard_about_runs_nobody_works_on(
    store: RunStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting, done = store.create(small_config(seed=1)), store.create(small_config(seed=2))
    train(done, 5, "finished")
    evaluate(done, 5)
    (tmp_path / "fake_scheduler.py").write_text(
        "from harness.store.status_sources import QueueState\n"
        "def queue_states(runs):\n"
        "    return {run.run_id: QueueState('queued', 'job 7 pending (Priority)') for run in runs}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    found = statuses([waiting, done], sources=["fake_scheduler"])
    assert (found[waiting.run_id].state, found[waiting.run_id].reason) == ("queued", "job 7 pending (Priority)")
    assert found[done.run_id].state == "done"


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", "status", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def test_the_command_lists_states_and_reasons(store: RunStore) -> None:
    first, second = store.create(small_config(seed=1)), store.create(small_config(seed=2))
    train(first, 5, "finished")
    evaluate(first, 5)
    result = command("--runs", store.root)
    assert result.returncode == 0, result.stderr
    assert f"{store.root}/tool_calling-pocket-gdpo-g4-...:" in result.stdout
    assert first.run_id.removeprefix("tool_calling-pocket-gdpo-g4-") + "  done" in result.stdout
    assert "2 runs: 1 done, 1 new" in result.stdout

    train(second, 2, "failed", "ValueError: no [red]luck[/red]")
    result = command("--runs", store.root, "--json")
    assert result.returncode == 1
    content = json.loads(result.stdout)
    assert content[first.run_id]["state"] == "done"
    assert content[second.run_id] == {
        "state": "failed",
        "reason": "attempt 1 failed at step 2 of 5: ValueError: no [red]luck[/red]",
        "step": 2,
        "steps": 5,
        "attempts": 1,
    }


def test_the_command_without_runs(tmp_path: Path) -> None:
    result = command("--runs", tmp_path / "none")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("no runs in ")
    (tmp_path / "file").write_text("")
    result = command("--runs", tmp_path / "file")
    assert result.returncode == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("names", "prefix"),
    [([], ""), (["a-b"], ""), (["a-bc", "a-bd"], "a-"), (["ab", "ac"], ""), (["a-b-c", "a-b-d"], "a-b-")],
)
def test_the_common_part_of_names(names: list[str], prefix: str) -> None:
    assert common_prefix(names) == prefix

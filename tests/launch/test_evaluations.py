"""Evaluations as part of a run: after training, in workers of their own, resumed, failed, repeated; with a stand-in for
``python -m harness evaluate``."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from harness.config import EvaluationConfig, RunConfig
from harness.errors import UserError
from harness.launch import evaluation_worker
from harness.launch.evaluation_status import evaluation_statuses
from harness.launch.evaluation_tasks import left_to_do
from harness.launch.pool import Outcome, run_matrix
from harness.launch.wanted_evaluations import Wanted, ask, attempts, note_attempt, stored_steps, wanted
from harness.store import Run, RunStatus, RunStore
from harness.store.status_command import main as status_main

MakeRun = Callable[..., RunConfig]
Behave = Callable[..., None]
DONE = RunStatus("done", "", 5, 5, 1)


def asking(config: RunConfig, *steps: int, benchmark: str = "pocket") -> RunConfig:
    return dataclasses.replace(config, evaluation=EvaluationConfig([benchmark], list(steps), {}))


@pytest.fixture
def stand_in(make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Behave:
    """Every process from now on has the stand-in; ``stand_in(seconds=..)`` says how it behaves."""
    (tmp_path / "plugins" / "sitecustomize.py").write_text("import stand_in_evaluate\nstand_in_evaluate.install()\n")

    def behave(**behaviour: Any) -> None:
        monkeypatch.setenv("STAND_IN", json.dumps(behaviour))

    behave()
    return behave


def matrix(configs: Sequence[RunConfig], store: RunStore, *, retry: bool = False) -> tuple[Outcome, str]:
    output = io.StringIO()
    console = Console(file=output, width=200)
    outcome = run_matrix(configs, store=store, workers=2, retry=retry, console=console)
    return outcome, output.getvalue()


def evaluated(run: Run) -> list[int]:
    """Steps in the order in which an evaluation of them began, repeated ones included."""
    path = run.path / "evaluated.txt"
    return [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []


def test_evaluations_follow_training_and_are_not_repeated(store: RunStore, make_run: MakeRun, stand_in: Behave) -> None:
    configs = [asking(make_run(name), 0, 2, 5) for name in ("gdpo", "grpo")]
    outcome, output = matrix(configs, store)
    assert outcome.exit_code == 0, output
    assert output.count("evaluation on pocket") == 4
    for config in configs:
        run = store.create(config)
        assert evaluated(run) == [0, 2], "the engine's own evaluation of the last step is stored already"
        assert run.evaluations.steps("pocket") == [0, 2, 5]
        assert [(item["step"], item["outcome"]) for item in attempts(run, "pocket")] == [(0, "stored"), (2, "stored")]
    outcome, output = matrix(configs, store)
    assert outcome.exit_code == 0
    assert "evaluation on" not in output
    assert evaluated(store.create(configs[0])) == [0, 2]


def test_runs_that_are_done_are_evaluated_later(store: RunStore, make_run: MakeRun, stand_in: Behave) -> None:
    config = make_run()
    matrix([config], store)
    outcome, output = matrix([asking(config, 0, 3)], store)
    assert outcome.exit_code == 0
    assert "to do for runs that are done: 2 evaluations (pocket)" in output
    assert evaluated(store.create(config)) == [0, 3]


def test_a_failed_evaluation_waits_for_retry_and_stops_nothing(
    store: RunStore,
    make_run: MakeRun,
    stand_in: Behave,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stand_in(fail_at=2)
    config = asking(make_run(), 0, 2, 3)
    outcome, output = matrix([config], store)
    run = store.create(config)
    assert outcome.exit_code == 1
    assert "step 2: no checkpoint of step 2; choose another" in output
    assert stored_steps(run, wanted(run)[0])[0] == (0, 3)
    stand_in()
    outcome, output = matrix([config], store)
    assert outcome.exit_code == 1
    assert "retry=true evaluates it again" in output
    assert evaluated(run) == [0, 2, 3]
    assert status_main(arguments(store)) == 1
    shown = capsys.readouterr().out
    assert "failed" in shown
    assert "pocket: 2 of 3 stored, step 2: no checkpoint of step 2; choose another" in shown
    outcome, _ = matrix([config], store, retry=True)
    assert outcome.exit_code == 0
    assert evaluated(run) == [0, 2, 3, 2]
    assert status_main(arguments(store)) == 0
    assert "1 evaluations, 3 of 3 checkpoints stored: 1 done" in capsys.readouterr().out


def arguments(store: RunStore) -> Any:
    import argparse

    return argparse.Namespace(runs=store.root, json=False, watch=None)


def test_a_result_made_by_hand_ends_a_failure(store: RunStore, make_run: MakeRun, stand_in: Behave) -> None:
    config = asking(make_run(), 2)
    run = store.create(config)
    item = ask(run, config)[0]
    note_attempt(run, "pocket", 2, "failed", 1.0, "no luck")
    assert list(stored_steps(run, item)[1]) == [2]
    path = run.evaluations.write("pocket", 2, {"n": 1, "metrics": {}}, None)
    later = time.time() + 5
    os.utime(path, (later, later))
    assert stored_steps(run, item) == ((2,), {})


def test_an_incomplete_result_is_a_failure(store: RunStore, make_run: MakeRun, stand_in: Behave) -> None:
    stand_in(incomplete_at=2)
    outcome, output = matrix([asking(make_run(), 2)], store)
    assert outcome.exit_code == 1
    assert "incomplete" in output


def test_nothing_is_evaluated_of_a_training_that_failed(
    store: RunStore,
    make_run: MakeRun,
    stand_in: Behave,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = asking(make_run(fail_at=3), 0, 2)
    outcome, _ = matrix([config], store)
    assert outcome.exit_code == 1
    assert evaluated(store.create(config)) == []
    status_main(arguments(store))
    shown = capsys.readouterr().out
    assert "blocked" in shown
    assert "not run: the training is failed: attempt 1 failed at step 2 of 5: ValueError: no luck at step 3" in shown


def start_worker(run: Run, steps: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "harness.launch.evaluation_worker", str(run.path), "pocket", steps]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def wait_for_answers(run: Run, count: int) -> None:
    path = run.evaluations.path("pocket", 0).with_suffix("") / "answers.txt"
    end = time.monotonic() + 30
    while not path.exists() or len(path.read_text().splitlines()) < count:
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_worker_leaves_nothing_behind_and_is_continued(
    store: RunStore, make_run: MakeRun, stand_in: Behave, number: int
) -> None:
    config = asking(make_run(), 0, 3)
    run = store.create(config)
    ask(run, config)
    stand_in(seconds=3.0)
    worker = start_worker(run, "0,3")
    wait_for_answers(run, 3)
    (status,) = evaluation_statuses([run], {run.run_id: DONE})[run.run_id].values()
    assert status.state == "running"
    assert evaluation_worker.main([str(run.path), "pocket", "0"]) == evaluation_worker.BUSY
    pid = int((run.path / "evaluated.txt").read_text().split()[2])
    worker.send_signal(number)
    assert worker.wait(30) == (-number if number == signal.SIGKILL else evaluation_worker.INTERRUPTED)
    end = time.monotonic() + 10
    while exists(pid):
        assert time.monotonic() < end, "the evaluation outlives its worker"
        time.sleep(0.05)
    (status,) = evaluation_statuses([run], {run.run_id: DONE})[run.run_id].values()
    assert (status.state, status.missing) == ("missing", (0, 3))
    stand_in()
    assert start_worker(run, "0,3").wait(30) == 0
    answers = run.evaluations.path("pocket", 0).with_suffix("") / "answers.txt"
    assert answers.read_text().split() == [str(number) for number in range(10)], "no question twice"


def exists(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    return False


def test_failures_of_this_submission_are_not_repeated_when_its_job_is_requeued(
    store: RunStore, make_run: MakeRun, stand_in: Behave
) -> None:
    stand_in(fail_at=2)
    config = asking(make_run(), 0, 2)
    run = store.create(config)
    before = time.time() - 1
    command = [sys.executable, "-m", "harness.launch.evaluation_worker", str(run.path), "pocket", "0,2"]
    for since in (before, before, time.time() + 60):
        done = subprocess.run([*command, "--since", str(since)], check=False, stderr=subprocess.DEVNULL)
        assert done.returncode == 1
    assert evaluated(run) == [0, 2, 2]


def test_what_several_commands_ask_for_is_joined(store: RunStore, make_run: MakeRun) -> None:
    config = make_run()
    run = store.create(config)
    ask(run, config)
    assert wanted(run) == []
    ask(run, asking(config, 0, 5))
    assert ask(run, asking(config, 3)) == [Wanted("pocket", "pocket", (3,), {})]
    assert wanted(run) == [Wanted("pocket", "pocket", (0, 3, 5), {})]
    left = left_to_do(run, asking(config, 3), retry=False)
    assert [task.wanted.steps for task in left.tasks] == [(3,)]
    (run.path / "evals" / "wanted.json").write_text("{")
    with pytest.raises(UserError, match=r"wanted\.json.*delete it"):
        wanted(run)


def test_damaged_lines_of_attempts_are_left_out(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run())
    note_attempt(run, "pocket", 2, "failed", 1.0, "x")
    with open(run.path / "evals" / "pocket" / "attempts.jsonl", "a") as file:
        file.write('[1]\n{"step": "a"}\nnull\n{"step": 3, "outcome"')
    assert [item["step"] for item in attempts(run, "pocket")] == [2]

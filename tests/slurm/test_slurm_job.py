"""The process inside a job, outside of a cluster: signals, notes, and when it gives up. ``scontrol`` is a script."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from store_configs import small_config

from harness.launch.slurm.job import _end_time, own_id
from harness.launch.slurm.submissions import Submission, Task
from harness.store import RunStore

ROOT = Path(__file__).resolve().parents[2]


class Started:
    """A job process of one run of the stand-in engine."""

    def __init__(
        self, folder: Path, *, notice: int = 60, steps: int = 200, evaluates: bool = False, **options: Any
    ) -> None:
        """``evaluates``: the job evaluates two steps, with the stand-in for ``python -m harness evaluate``."""
        package = folder / "plugins" / "standin"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "engine.py").write_text((Path(__file__).parent / "slurm_engine.py").read_text())
        (package.parent / "sitecustomize.py").write_text("import stand_in_evaluate\nstand_in_evaluate.install()\n")
        store = RunStore(folder / "runs")
        self.run = store.create(small_config(steps=steps, engine="standin.engine", options=options))
        task = Task("train", self.run.run_id)
        if evaluates:
            task = Task("evaluate", self.run.run_id, "pocket", ("pocket", "0,2"))
        self.submission = Submission.create(store.root, {0: task}, settings={"signal_seconds": notice, "nodes": 1})
        self.calls = folder / "calls"
        scontrol = folder / "bin" / "scontrol"
        scontrol.parent.mkdir()
        scontrol.write_text(
            f'#!/bin/sh\necho "$*" >> {self.calls}\n'
            'case "$*" in *requeue*) kill -KILL "$PPID";; *) echo "JobState=RUNNING Restarts=0";; esac\n'
        )
        scontrol.chmod(0o755)
        self.environment = {
            **os.environ,
            "PYTHONPATH": f"{ROOT}:{package.parent}:{ROOT / 'tests' / 'launch'}",
            "STAND_IN": json.dumps(options),
            "PATH": f"{scontrol.parent}:{os.environ['PATH']}",
            "SLURM_JOB_ID": "5",
        }

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "harness.launch.slurm.job", str(self.submission.folder)]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)

    def wait_for_step(self, step: int) -> None:
        end = time.monotonic() + 30
        while self.run.metrics.last_step() < step:
            assert time.monotonic() < end, self.run.last_log_lines(20)
            time.sleep(0.02)

    def events(self) -> list[str]:
        return [event["event"] for event in self.submission.events(0)]


def children(process: subprocess.Popen[bytes]) -> list[int]:
    text = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in text.split()]


def test_notice_saves_and_requeues(tmp_path: Path) -> None:
    job = Started(tmp_path, seconds=0.02)
    process = job.start()
    job.wait_for_step(3)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(30) == -signal.SIGKILL, "ended by SLURM's requeue"
    assert job.events() == ["started", "requeued"]
    assert "requeue 5" in job.calls.read_text().splitlines()
    assert job.run.status().state == "interrupted"


def test_evaluation_is_ended_before_the_limit_requeued_and_continued(tmp_path: Path) -> None:
    job = Started(tmp_path, evaluates=True, seconds=20.0)
    answers = job.run.path / "evals" / "pocket" / "0" / "answers.txt"
    process = job.start()
    wait_until(lambda: answers.exists() and len(answers.read_text().split()) >= 1)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(60) == -signal.SIGKILL, "ended by SLURM's requeue"
    job.environment["STAND_IN"] = json.dumps({"fail_at": 2})
    assert job.start().wait(60) == 1
    assert answers.read_text().split() == [str(number) for number in range(10)], "no question twice"
    assert job.events() == ["started", "requeued", "started", "ended"]
    assert job.start().wait(60) == 1
    assert len((job.run.path / "evaluated.txt").read_text().splitlines()) == 3, "a failed step is not repeated"


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_worker_that_does_not_save_in_time_is_given_up_and_requeued(tmp_path: Path) -> None:
    job = Started(tmp_path, notice=2, seconds=0.02, stubborn=True)
    process = job.start()
    job.wait_for_step(3)
    workers = children(process)
    process.send_signal(signal.SIGUSR2)
    process.wait(30)
    for pid in workers:
        os.kill(pid, signal.SIGKILL)  # as SLURM does when it requeues
    assert job.events() == ["started", "not_saved", "requeued"]


def test_job_without_progress_gives_up(tmp_path: Path) -> None:
    """A step longer than the time between two limits would requeue for ever."""
    job = Started(tmp_path, notice=2, seconds=60.0)
    for _ in range(2):
        job.submission.append(0, "started", step=0)
    process = job.start()
    time.sleep(1.0)
    end = time.monotonic() + 30
    while len(job.events()) < 3 and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # the worker starts right after the event
    workers = children(process)
    process.send_signal(signal.SIGUSR2)
    assert process.wait(30) == 1
    for pid in workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert job.events()[-1] == "gave_up"
    assert not any("requeue" in line for line in job.calls.read_text().splitlines())


def test_exit_code_is_zero_only_for_a_finished_run(tmp_path: Path) -> None:
    done = Started(tmp_path / "a", steps=3)
    assert done.start().wait(30) == 0
    assert done.events() == ["started", "ended"]
    failed = Started(tmp_path / "b", steps=3, fail_at=2)
    assert failed.start().wait(30) == 1


def test_asked_to_stop_but_not_cancelled(tmp_path: Path) -> None:
    job = Started(tmp_path, seconds=0.02)
    process = job.start()
    job.wait_for_step(3)
    for pid in [process.pid, *children(process)]:
        os.kill(pid, signal.SIGTERM)
    assert process.wait(60) == 75
    assert job.events()[-1] == "stopped"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"SLURM_JOB_ID": "12"}, "12"),
        ({"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "3"}, "12_3"),
        ({}, ""),
    ],
)
def test_the_last_task_of_an_array_does_not_name_the_whole_array(environment: dict[str, str], expected: str) -> None:
    assert own_id(environment) == expected


def test_end_time() -> None:
    assert _end_time({"EndTime": "Unknown"}) is None
    moment = _end_time({"EndTime": "2026-12-01T03:11:54"})
    assert moment is not None
    assert time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(moment)) == "2026-12-01T03:11:54"

"""From SLURM's words to states, with a ``squeue`` and ``sacct`` that say what the test wants. Needs no SLURM."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from store_configs import small_config
from test_slurm_options import options

from harness.cli import main
from harness.launch.selection import plan
from harness.launch.slurm.launcher import _batches
from harness.launch.slurm.options import read_options
from harness.launch.slurm.submissions import Submission, Task
from harness.store import Run, RunStore
from harness.store.status_sources import statuses


class Cluster:
    """Two submitted runs, an empty queue."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = RunStore(folder / "runs")
        self.runs = [self.store.create(small_config(method=name)) for name in ("gdpo", "grpo")]
        tasks = {index: Task("train", run.run_id) for index, run in enumerate(self.runs)}
        self.submission = Submission.create(self.store.root, tasks, settings={"mem_gb": 2.0})
        self.submission.remember_job("77")
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.say("squeue", "")
        self.say("sacct", "")
        monkeypatch.setenv("PATH", f"{self.bin}:/usr/bin:/bin")

    def say(self, program: str, text: str, code: int = 0) -> None:
        path = self.bin / program
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\necho {text!r} >&2\nexit {code}\n")
        path.chmod(0o755)

    def queue(self, index: int, state: str, reason: str = "None", *, written_down: bool = True) -> None:
        if not written_down:
            (self.submission.folder / "job_id").unlink()
        script = self.submission.folder / ".submission_file_x.sh"
        self.say("squeue", f"77|{index}|78|{state}|{reason}|node1|0:10|1:00|N/A|{script}")

    def status(self, index: int = 0) -> tuple[str, str]:
        found = statuses([Run(run.path) for run in self.runs])[self.runs[index].run_id]
        return found.state, found.reason


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("state", "reason", "expected", "words"),
    [
        ("PENDING", "Resources", "queued", "job 77_0 pending (Resources)"),
        ("PENDING", "JobHeldUser", "held", "JobHeldUser"),
        ("PENDING", "launch failed requeued held", "held", "requeued held"),
        ("RUNNING", "None", "running", "node1"),
        ("COMPLETING", "None", "queued", "completing"),
        ("CANCELLED", "None", "interrupted", "was cancelled"),
        ("TIMEOUT", "TimeLimit", "interrupted", "time limit"),
        ("NODE_FAIL", "None", "interrupted", "lost its node"),
        ("OUT_OF_MEMORY", "None", "failed", "out of memory"),
        ("FAILED", "NonZeroExitCode", "failed", "before it started"),
    ],
)
def test_queue(cluster: Cluster, state: str, reason: str, expected: str, words: str) -> None:
    cluster.queue(0, state, reason)
    found, why = cluster.status()
    assert found == expected
    assert words in why


def test_the_queue_leads_back_to_the_run_without_what_is_written_after_sbatch(cluster: Cluster) -> None:
    cluster.queue(1, "PENDING", "Priority", written_down=False)
    assert cluster.status(1)[0] == "queued"
    assert cluster.status(0)[0] == "new", "its own sbatch call may never have happened"


def test_silence_never_makes_a_waiting_run_startable(cluster: Cluster) -> None:
    cluster.say("squeue", "Unable to contact slurm controller", code=1)
    state, reason = cluster.status()
    assert state == "queued"
    assert "SLURM does not answer" in reason


def test_a_job_that_vanished_is_told_by_accounting_or_by_its_notes(cluster: Cluster) -> None:
    assert cluster.status()[1].startswith("job 77_0 left the queue before it started")
    cluster.submission.append(0, "started", step=0)
    assert "ended without a word" in cluster.status()[1]
    cluster.say("sacct", "77_0|NODE_FAIL|0:0")
    assert "lost its node" in cluster.status()[1]
    cluster.say("sacct", "")
    cluster.submission.append(0, "cancelled", step=0)
    assert "was cancelled" in cluster.status()[1]


@pytest.mark.parametrize(
    ("event", "values", "expected", "words"),
    [
        (
            "ended",
            {"exit_code": -9, "signal": "SIGKILL", "reason": "OUT_OF_MEMORY", "peak_gb": 2.0},
            "failed",
            "memory",
        ),
        ("ended", {"exit_code": -9, "signal": "SIGKILL", "peak_gb": 1.9}, "interrupted", "lack of memory"),
        ("ended", {"exit_code": -11, "signal": "SIGSEGV", "peak_gb": 0.1}, "interrupted", "SIGSEGV"),
        ("gave_up", {"reason": "no step done between 3 time limits"}, "failed", "hydra.launcher.time"),
        ("not_started", {"exit_code": 127}, "failed", "exit code 127"),
        ("failed", {"reason": "Ray: not all of 2 nodes joined"}, "failed", "Ray"),
        ("requeued", {"reason": "time limit"}, "interrupted", "without a word"),
    ],
)
def test_notes(cluster: Cluster, event: str, values: dict[str, Any], expected: str, words: str) -> None:
    cluster.submission.append(0, "started", step=0)
    cluster.submission.append(0, event, **values)
    state, reason = cluster.status()
    assert state == expected
    assert words in reason


def test_requeued_says_why(cluster: Cluster) -> None:
    cluster.submission.append(0, "started", step=0)
    cluster.submission.append(0, "requeued", reason="time limit")
    cluster.queue(0, "PENDING", "BeginTime")
    state, reason = cluster.status()
    assert state == "queued"
    assert "requeued (time limit)" in reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "slurmstepd-node0: error: StepId=77.batch exceeded memory limit (538 > 209), being killed",
            "failed",
        ),
        ("slurmstepd: error: Detected 1 oom-kill event(s) in StepId=77.batch.", "failed"),
        ("slurmstepd: error: *** JOB 77 ON node1 CANCELLED AT 2026-12-01T17:05:00 ***", "interrupted"),
        ("a set-up command talks of an oom-kill", "interrupted"),
    ],
)
def test_out_of_memory_is_read_from_the_words_of_slurmstepd(cluster: Cluster, line: str, expected: str) -> None:
    """SLURM 22.05 itself calls a job FAILED that it killed for its memory without control groups."""
    cluster.submission.append(0, "started", step=0)
    output = cluster.submission.output(0)
    assert output is not None
    output.write_text(f"2026-12-01T17:02:12 started {{'step': 0}}\n{line}\n")
    cluster.queue(0, "FAILED", "JobLaunchFailure")
    state, reason = cluster.status()
    assert state == expected
    assert ("mem_gb=2" in reason) == (expected == "failed")
    cluster.submission.append(0, "started", step=0)
    output.write_text(output.read_text() + "2026-12-01T17:08:00 started {'step': 0}\n")
    assert cluster.status()[0] == "interrupted", "what ended an earlier start is no longer news"


def test_damaged_notes_are_skipped(cluster: Cluster) -> None:
    cluster.submission.append(0, "started", step=0)
    with open(cluster.submission.folder / "events" / "0.jsonl", "a") as file:
        file.write('{"event": "en')
    assert cluster.status()[0] == "interrupted"


def test_arrays_are_split_and_hold_runs_of_equal_resources(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    planned = plan([small_config(seed=seed) for seed in range(25)], store, retry=False)
    batches = _batches(planned, read_options(options()), max_array=10)
    assert [len(batch.tasks) for batch in batches] == [10, 10, 5]
    names = [task.run_id for batch in batches for task in batch.tasks.values()]
    assert names == [item.run_id for item in planned]
    assert all(sorted(batch.tasks) == list(range(len(batch.tasks))) for batch in batches)


def test_events_are_whole_lines(cluster: Cluster) -> None:
    cluster.submission.append(1, "started", node="n")
    (line,) = (cluster.submission.folder / "events" / "1.jsonl").read_text().splitlines()
    assert json.loads(line)["node"] == "n"


def test_the_collect_job_is_cancelled_with_the_last_job_of_the_runs(cluster: Cluster) -> None:
    collect = Submission.create(cluster.store.root, {0: Task("collect", "collect")}, settings={})
    scripts = {"77|0": cluster.submission.folder, "77|1": cluster.submission.folder, "79|N/A": collect.folder}
    lines = {
        job: f"{job}|{job[:2]}|PENDING|None|||1:00|N/A|{folder}/.submission_file_x.sh"
        for job, folder in scripts.items()
    }
    called = cluster.bin / "called"
    (cluster.bin / "scancel").write_text(f'#!/bin/sh\necho "$*" > {called}\n')
    (cluster.bin / "scancel").chmod(0o755)

    def cancelled(pattern: str, *jobs: str) -> str:
        cluster.say("squeue", "\n".join(lines[job] for job in jobs))
        called.write_text("")
        assert main(["cancel", pattern, "--runs", str(cluster.store.root)]) == 0
        return called.read_text().strip()

    one = cluster.runs[0].run_id
    assert cancelled("*", "77|0", "77|1", "79|N/A") == "79 77_0 77_1"
    assert cancelled(one, "77|0", "77|1", "79|N/A") == "77_0"
    assert cancelled(one, "77|0", "79|N/A") == "79 77_0"
    assert cancelled(one, "79|N/A") == ""
    assert cancelled("*", "79|N/A") == "79"

"""Whatever dies, the same command (or SLURM) brings the study to its end, and status says in between what is true."""

from __future__ import annotations

import signal
import stat
import time

import pytest
from slurm_shell import Shell, check_run, kill_job, metrics_of

pytestmark = pytest.mark.slurm

LONG = {"steps": 20, "seconds": 0.25}


def test_launcher_killed_after_sbatch(shell: Shell) -> None:
    wrapper = shell.folder / "bin" / "sbatch"
    wrapper.parent.mkdir()
    wrapper.write_text('#!/bin/sh\n/usr/bin/sbatch "$@"\nkill -9 $PPID\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    path = shell.environment["PATH"]
    shell.environment["PATH"] = f"{wrapper.parent}:{path}"
    shell.launch("method=gdpo,grpo", expect=-signal.SIGKILL)
    shell.environment["PATH"] = path
    assert shell.sbatch_calls() == 0, "nothing was written down after sbatch"
    assert set(shell.states()) <= {"queued", "running", "done"}
    assert "submitted" not in shell.launch("method=gdpo,grpo")
    shell.wait_done(2)
    for run in shell.folders():
        check_run(run, steps=4)


def test_job_killed(shell: Shell) -> None:
    shell.launch("method=gdpo", **LONG)
    run = shell.wait_for_step(5)
    (job,) = shell.queue()
    kill_job(job, signal.SIGKILL)
    shell.wait(lambda: not shell.queue(), 30, "the job to leave the queue")
    (status,) = shell.status().values()
    assert status["state"] == "interrupted", status
    shell.launch("method=gdpo", **LONG)
    shell.wait_done(1)
    check_run(run, steps=20, repeated=2)


def test_job_of_the_embedded_engine_killed(shell: Shell) -> None:
    """As above with the engine itself: rewards, densities, losses and gradients equal an undisturbed run's."""
    settings = ("method=dara_asym", "output.checkpoint_every=2")
    slurm = ("hydra/launcher=slurm", "hydra.launcher.time=60")
    shell.train(*settings, *slurm, steps=30)
    (run,) = shell.folders()
    shell.wait(lambda: (run / "metrics.jsonl").exists() and len(metrics_of(run)) >= 5, 120, "step 5")
    (job,) = shell.queue()
    kill_job(job, signal.SIGKILL)
    shell.wait(lambda: not shell.queue(), 30, "the job to leave the queue")
    assert shell.states() == ["interrupted"]
    shell.train(*settings, *slurm, steps=30)
    shell.wait(lambda: shell.states() == ["done"], 180, "the run to end")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    assert 30 <= len(lines) <= 32, "at most two steps are repeated"
    shell.train(*settings, steps=30, runs=shell.folder / "undisturbed")
    undisturbed = metrics_of(shell.folder / "undisturbed" / run.name)
    assert metrics_of(run) == undisturbed


def test_only_the_worker_killed(shell: Shell) -> None:
    shell.launch("method=gdpo", **LONG)
    run = shell.wait_for_step(5)
    (job,) = shell.queue()
    kill_job(job, signal.SIGKILL, only="harness.launch.worker")
    shell.wait(lambda: not shell.queue(), 30, "the job to leave the queue")
    (status,) = shell.status().values()
    assert status["state"] == "interrupted", status
    assert "killed by SIGKILL" in status["reason"]
    shell.launch("method=gdpo", **LONG)
    shell.wait_done(1)
    check_run(run, steps=20, repeated=2)


def test_slurmd_killed_and_started_again(shell: Shell) -> None:
    shell.launch("method=gdpo", **LONG)
    run = shell.wait_for_step(2)
    node = shell.node_of(run)
    shell.cluster.kill_node(node)
    assert shell.states() == ["running"]
    shell.cluster.start_node(node)
    shell.wait_done(1)
    shell.wait(lambda: not shell.queue(), 30, "the job to leave the queue")
    check_run(run, steps=20)


def test_node_lost(shell: Shell) -> None:
    """SLURM finds out, requeues the job, and another node finishes it."""
    settings = {"steps": 40, "seconds": 0.25}
    shell.launch("method=gdpo", **settings)
    run = shell.wait_for_step(5)
    node = shell.node_of(run)
    shell.cluster.lose_node(node)
    try:
        shell.wait_done(1, 120)
        check_run(run, steps=40, repeated=2)
    finally:
        shell.cluster.start_node(node)
        shell.wait(lambda: shell.cluster.node_state(node) in ("idle", "mixed"), 60, f"{node} to come back")


def _wait_until_saved(shell: Shell) -> None:
    """slurmctld writes its jobs to disk some seconds after a change; a job that it never wrote is lost with it."""
    state = shell.cluster.folder / "state" / "job_state"
    shell.wait(lambda: str(shell.folder).encode() in state.read_bytes(), 20, "slurmctld to write its jobs to disk")


def test_slurmctld_killed_and_started_again(shell: Shell) -> None:
    shell.launch("method=gdpo", **LONG)
    run = shell.wait_for_step(2)
    _wait_until_saved(shell)
    shell.cluster.kill_controller()
    try:
        (status,) = shell.status().values()
        assert status["state"] == "running"
        output = shell.launch("method=gdpo", **LONG, expect=2)
        assert "SLURM does not answer" in output
    finally:
        shell.cluster.start_controller()
    assert "submitted" not in shell.launch("method=gdpo", **LONG)
    shell.wait_done(1)
    check_run(run, steps=20)


def test_waiting_job_is_not_forgotten_while_slurmctld_is_away(shell: Shell) -> None:
    shell.launch("method=gdpo", launcher=("sbatch={begin: 'now+1hour'}",))
    assert shell.states() == ["queued"]
    _wait_until_saved(shell)
    shell.cluster.kill_controller()
    try:
        (status,) = shell.status().values()
        assert status["state"] == "queued"
        assert "SLURM does not answer" in status["reason"]
    finally:
        shell.cluster.start_controller()
    assert shell.states() == ["queued"]


def test_cancelled_job_stays_cancelled_until_submitted_again(shell: Shell) -> None:
    shell.launch("method=gdpo", **LONG)
    run = shell.wait_for_step(5)
    shell.cluster.run("scancel", *shell.queue())
    shell.wait(lambda: not shell.queue(), 30, "the job to leave the queue")
    time.sleep(3)
    assert shell.queue() == []
    (status,) = shell.status().values()
    assert status["state"] == "interrupted"
    assert "cancelled" in status["reason"]
    shell.launch("method=gdpo", **LONG)
    shell.wait_done(1)
    check_run(run, steps=20, repeated=2)


def test_cancelled_while_waiting(shell: Shell) -> None:
    shell.launch("method=gdpo", launcher=("sbatch={begin: 'now+1hour'}",))
    shell.cluster.run("scancel", *shell.queue())
    (status,) = shell.status().values()
    assert status["state"] == "interrupted"
    assert "cancelled" in status["reason"]
    shell.launch("method=gdpo")
    shell.wait_done(1)


def test_time_limit(shell: Shell) -> None:
    """The notice comes 95 s before the limit of two minutes: the job saves, requeues itself, and continues."""
    settings = {"steps": 60, "seconds": 0.5, "launcher": ("time=2", "signal_seconds=95")}
    shell.launch("method=gdpo", **settings)
    run = shell.wait_for_step(1)
    reason = shell.wait(lambda: shell.reason_with("requeued"), 60, "the job to requeue itself")
    assert "time limit" in reason
    assert "submitted" not in shell.launch("method=gdpo", **settings)
    shell.wait_done(1, 120)
    check_run(run, steps=60)
    assert shell.sbatch_calls() == 1


def test_preempted(shell: Shell) -> None:
    settings = {"steps": 80, "seconds": 0.25}
    shell.launch("method=gdpo", **settings)
    run = shell.wait_for_step(5)
    urgent = shell.cluster.run(
        "sbatch", "--parsable", "-p", "urgent", "-N2", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 6"
    ).strip()
    reason = shell.wait(lambda: shell.reason_with("requeued"), 60, "the job to be preempted")
    assert "preempted" in reason
    assert "submitted" not in shell.launch("method=gdpo", **settings)
    shell.wait_done(1, 90)
    check_run(run, steps=80, repeated=2)
    assert shell.sbatch_calls() == 1
    assert urgent not in shell.queue()

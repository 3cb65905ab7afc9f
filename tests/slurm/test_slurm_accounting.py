"""With accounting (slurmdbd and MariaDB): status knows from sacct what squeue has forgotten. Every other test of SLURM
runs without accounting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_shell import Shell, check_run, start_cluster, user_of

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def accounting() -> Iterator[Any]:
    """Jobs that ended are forgotten by slurmctld after two seconds; memory limits are enforced."""
    started = start_cluster(nodes=1, accounting=True, grace=2, kill_wait=3, job_age=2, enforce_memory=True)
    yield started
    started.stop(wipe=True)


@pytest.fixture
def shell(accounting: Any, tmp_path: Path) -> Iterator[Shell]:
    with user_of(accounting, tmp_path) as user:
        yield user


def wait_until_forgotten(shell: Shell) -> None:
    """squeue no longer shows the jobs of this store, sacct does."""
    shell.wait(lambda: str(shell.runs) not in shell.cluster.run("squeue", "-h", "-t", "all", "-o", "%o"), 120, "purge")


def accounts(shell: Shell) -> list[str]:
    return shell.cluster.run("sacct", "-X", "-n", "-P", "-o", "State").split()


def test_matrix_with_accounting(shell: Shell) -> None:
    matrix = ("method=gdpo,grpo", "seed=0,1")
    assert "4 new" in shell.launch(*matrix)
    shell.wait_done(4, 120)
    for run in shell.folders():
        check_run(run, steps=4)
    wait_until_forgotten(shell)
    assert shell.states() == ["done"] * 4
    assert "4 done" in shell.launch(*matrix)
    assert shell.sbatch_calls() == 1
    shell.wait(lambda: accounts(shell).count("COMPLETED") >= 4, 60, "accounting to know")


def test_what_squeue_has_forgotten_is_told_by_sacct(shell: Shell) -> None:
    """A job that never ran left no note of its own."""
    shell.launch("method=gdpo", launcher=("sbatch={begin: 'now+1hour'}",))
    assert shell.states() == ["queued"]
    shell.cluster.run("scancel", *shell.queue())
    wait_until_forgotten(shell)
    shell.wait(lambda: shell.reason_with("was cancelled"), 60, "accounting to know")
    assert shell.states() == ["interrupted"]
    shell.launch("method=gdpo")
    shell.wait_done(1)


def test_out_of_memory_is_a_failure_that_waits_for_more(shell: Shell) -> None:
    settings = {"steps": 40, "seconds": 0.5}
    shell.launch("method=gdpo", "+engine.options.allocate_mb=600", launcher=("mem_gb=0.4",), **settings)
    reason = shell.wait(lambda: shell.reason_with("memory"), 120, "the job to be ended")
    assert "hydra.launcher.mem_gb" in reason
    assert shell.states() == ["failed"]
    output = shell.launch("method=gdpo", "+engine.options.allocate_mb=600", expect=1, **settings)
    assert "retry=true" in output
    assert shell.sbatch_calls() == 1

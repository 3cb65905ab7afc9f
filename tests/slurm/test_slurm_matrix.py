"""A matrix on a real cluster: submitted once, recognised afterwards, whoever submits."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from slurm_shell import ROOT, Shell, check_run, metrics_of

pytestmark = pytest.mark.slurm

MATRIX = ("method=grpo,gdpo,dara_sym,dara_asym", "seed=0,1,2")


def checkout(folder: Path) -> Path:
    """A git checkout of its own, with one commit."""
    copy = folder / "checkout"
    for name in ("harness", "conf"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / ".gitignore").write_text("__pycache__/\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for command in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "all")):
        subprocess.run(["git", "-C", str(copy), *command], check=True)
    return copy


def test_pocket_matrix_runs_as_an_array_and_is_not_submitted_again(shell: Shell) -> None:
    """The embedded engine; what one of the runs logs is what it logs on this machine without SLURM."""
    options = ("hydra/launcher=slurm", "hydra.launcher.time=60", "hydra.launcher.array_parallelism=4")
    output = shell.train(*MATRIX, *options, steps=4)
    assert "12 new" in output
    assert "12 runs" in output
    assert shell.sbatch_calls() == 1
    again = shell.train(*MATRIX, *options, steps=4)
    assert "submitted" not in again
    shell.wait(lambda: shell.states() == ["done"] * 12, 300, "12 runs done")
    output = shell.train(*MATRIX, *options, steps=4)
    assert "12 done" in output
    assert shell.sbatch_calls() == 1
    elsewhere = shell.folder / "undisturbed"
    shell.train("method=dara_sym", "seed=1", steps=4, runs=elsewhere)
    (undisturbed,) = elsewhere.iterdir()
    assert len(metrics_of(undisturbed)) == 4
    assert metrics_of(shell.runs / undisturbed.name) == metrics_of(undisturbed)


def test_two_launchers_at_once_train_each_run_once(shell: Shell) -> None:
    first, second = shell.start("method=grpo,gdpo", "seed=0,1"), shell.start("method=grpo,gdpo", "seed=0,1")
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], outputs
    assert sum("submitted" in output for output in outputs) == 1, outputs
    shell.wait_done(4)
    for run in shell.folders():
        check_run(run, steps=4)


def test_arrays_are_throttled_and_surrounding_slurm_variables_stay_out(shell: Shell) -> None:
    shell.environment |= {
        "SLURM_JOB_ID": "1",
        "SLURM_NTASKS": "7",
        "SLURM_MEM_PER_NODE": "5",
        "SLURM_JOB_NAME": "outer",
    }
    seen = shell.folder / "seen"
    launcher = ("array_parallelism=1", f"setup=['env | sort > {seen}-$SLURM_ARRAY_TASK_ID']")
    shell.launch("method=grpo,gdpo,dara_sym", launcher=launcher)
    shell.wait_done(3)
    for number in range(3):
        variables = dict(
            line.split("=", 1) for line in Path(f"{seen}-{number}").read_text().splitlines() if "=" in line
        )
        assert variables["SLURM_JOB_ID"] != "1"
        assert variables.get("SLURM_NTASKS", "1") == "1"
        assert "SLURM_MEM_PER_NODE" not in variables
    assert_never_together(shell.spans())


def assert_never_together(spans: list[tuple[float, float]]) -> None:
    for (_, end), (start, _) in itertools.pairwise(sorted(spans)):
        assert end <= start + 0.1


def test_failed_runs_wait_for_retry_and_show_their_own_error(shell: Shell) -> None:
    shell.launch("method=gdpo", "+engine.options.fail_at=3")
    shell.wait(lambda: shell.states() == ["failed"], 60, "failure")
    (status,) = shell.status().values()
    assert "ValueError: no luck at step 3" in status["reason"]
    output = shell.launch("method=gdpo", "+engine.options.fail_at=3", expect=1)
    assert "retry=true" in output
    assert shell.sbatch_calls() == 1
    shell.launch("method=gdpo", "retry=true")
    shell.wait_done(1)
    (run,) = shell.folders()
    check_run(run, steps=4)


def test_set_up_that_fails_is_a_failure_with_its_words(shell: Shell) -> None:
    shell.launch("method=gdpo", launcher=("setup=['echo no such module >&2; exit 3']",))
    shell.wait(lambda: shell.states() == ["failed"], 60, "failure")
    (status,) = shell.status().values()
    assert "set-up ended with exit code 3" in status["reason"]
    assert "no such module" in status["reason"]


def test_a_job_checks_before_it_trains(shell: Shell) -> None:
    """What `python -m harness doctor` finds on the node ends the job in one line, before anything is trained."""
    shell.launch("method=gdpo", "+engine.options.problem='no GPU seen'")
    shell.wait(lambda: shell.states() == ["failed"], 60, "failure")
    (status,) = shell.status().values()
    assert "the run cannot start: GPUs: no GPU seen -> start on another node" in status["reason"]
    (run,) = shell.folders()
    assert not (run / "steps.txt").exists()
    assert "Traceback" not in shell.logs()
    shell.launch("method=gdpo", "retry=true")
    shell.wait_done(1)


def test_unknown_partition_is_an_error_of_one_line_and_submits_nothing(shell: Shell) -> None:
    output = shell.launch("method=gdpo", launcher=("partition=nowhere",), expect=2)
    assert "partition" in output.lower()
    assert "Traceback" not in output
    assert shell.states() == ["new"]
    assert shell.queue() == []


def test_held_job_is_shown_and_released(shell: Shell) -> None:
    shell.launch("method=gdpo", launcher=("sbatch={hold: true}",))
    (status,) = shell.status().values()
    assert status["state"] == "held"
    assert "submitted" not in shell.launch("method=gdpo")
    (run,) = shell.folders()
    shell.harness("requeue", run.name, "--runs", str(shell.runs))
    shell.wait_done(1)


def test_edits_while_jobs_wait_have_no_effect(shell: Shell) -> None:
    """Neither conf/ nor the code of a queued job can be changed any more."""
    copy = checkout(shell.folder)
    shell.use(copy)
    shell.launch("method=gdpo", launcher=("sbatch={hold: true}",))
    conf = copy / "conf" / "training" / "pocket_tool_calling.yaml"
    conf.write_text(conf.read_text().replace("learning_rate", "learning_rat"))
    (copy / "harness" / "launch" / "worker.py").write_text("raise RuntimeError('edited')\n")
    shell.use(ROOT)
    (run,) = shell.folders()
    shell.harness("requeue", run.name, "--runs", str(shell.runs))
    shell.wait_done(1)
    check_run(run, steps=4)
    code = json.loads((run / "manifest.json").read_text())["attempts"][0]["code"]
    commit = subprocess.run(["git", "-C", str(copy), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert code["commit"] == commit.stdout.strip()
    assert code["dirty"] is False


def test_uncommitted_changes_are_recorded_or_refused(shell: Shell) -> None:
    copy = checkout(shell.folder)
    errors = copy / "harness" / "errors.py"
    errors.write_text(errors.read_text() + "\nCHANGED = 1\n")
    shell.use(copy)
    output = shell.launch("method=gdpo", launcher=("require_clean=true",), expect=2)
    assert "harness/errors.py" in output
    shell.launch("method=gdpo")
    shell.wait_done(1)
    (run,) = shell.folders()
    content = json.loads((run / "manifest.json").read_text())
    code = content["attempts"][0]["code"]
    assert code["dirty"] is True
    assert "CHANGED = 1" in content["code"][code["diff_sha256"]]


def test_cancel_and_logs_by_pattern(shell: Shell) -> None:
    shell.launch("method=gdpo,grpo", launcher=("sbatch={begin: 'now+1hour'}",))
    output = shell.harness("cancel", "*-gdpo-*", "--runs", str(shell.runs))
    assert "1 jobs cancelled" in output
    assert sorted(shell.states()) == ["interrupted", "queued"]
    assert "not started" in shell.harness("logs", "*-grpo-*", "--runs", str(shell.runs))
    error = shell.harness("cancel", "nothing-like-this", "--runs", str(shell.runs), expect=2)
    assert "nothing-like-this" in error

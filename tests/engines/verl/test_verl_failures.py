"""What goes wrong in a real run by verl: it ends with one line that names cause and remedy, the store says failed, and
what was written stays. The quick ones end before verl starts; each of the others takes about a minute."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from verl_cases import SECONDS as LIMIT
from verl_cases import log_of, needs_verl, only_run, processes_of, run_plain, start, train, wait_for

from harness.store import Run

pytestmark = needs_verl

FIRST_CHECKPOINT = "checkpoints/latest_checkpointed_iteration.txt"


def failed(run: Run, message: str) -> None:
    """The run is stored as failed for one line that matches, with the log it names."""
    status = run.status()
    assert status.state == "failed", (status, log_of(run))
    assert re.search(message, status.reason), (status.reason, log_of(run))
    assert "\n" not in status.reason
    assert "Traceback" not in status.reason


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("method=dara_asim",), r"method=dara_asim does not exist: did you mean 'dara_asym'"),
        (("+task.channels.fromat={low: 0.0, high: 1.0}",), r"task\.channels\.fromat is no reward .*mean 'format'"),
        (("engine.gpus_per_node=3",), r"16 responses of an update do not divide among 3 workers; change engine"),
        (("training.responses_per_step=66",), r"responses_per_step=66 is no multiple of group_size=4"),
    ],
)
def test_mistakes_in_the_settings_end_the_command_before_anything_starts(tmp_path, overrides, message):
    result = train(tmp_path, "training.steps=2", *overrides)
    assert result.returncode == 2
    assert re.search(message, result.stderr), result.stderr
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.glob("*/verl/attempt_*.log"))


def test_a_checkpoint_of_another_number_of_workers_fails_the_run_and_stays(tmp_path):
    plan = train(tmp_path, "training.steps=2", "engine.gpus_per_node=3")  # makes the run, starts nothing
    assert plan.returncode == 2
    actor = only_run(tmp_path).checkpoints / "global_step_1" / "actor"
    actor.mkdir(parents=True)
    for rank in range(2):
        (actor / f"model_world_size_2_rank_{rank}.pt").write_bytes(b"weights")
    (actor.parent / "data.pt").write_bytes(b"order")
    (actor.parents[1] / "latest_checkpointed_iteration.txt").write_text("1")
    result = train(tmp_path, "training.steps=2")
    assert result.returncode == 1
    failed(only_run(tmp_path), r"written by 2 worker\(s\), this run has 1; set engine\.nodes x .* or move .* away")
    assert len(list(actor.glob("*.pt"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("infinite", r"channel 'correctness' is infinite for 64 of 64 responses; return a finite number, or None"),
        ("raises", r"error for 16 of 16 groups.*The first of them: RuntimeError: the grader's licence has expired"),
    ],
)
def test_a_broken_reward_function_fails_the_run_at_its_first_step(tmp_path, kind, message):
    folder = Path(__file__).parent / "broken_reward"
    result = train(tmp_path, "training.steps=2", PYTHONPATH=str(folder), BROKEN_REWARD=kind)
    assert result.returncode == 1
    run = only_run(tmp_path)
    failed(run, message)
    assert run.metrics.rows() == []


@pytest.mark.slow
def test_prompts_without_any_informative_group_end_the_run_at_the_cap(tmp_path):
    result = train(
        tmp_path,
        "training.steps=2",
        "training.temperature=1e-4",  # four times the same answer
        "training.filter=any_channel",
        "training.candidate_prompts=20",
        "training.max_generation_batches=2",
    )
    assert result.returncode == 1
    run = only_run(tmp_path)
    failed(run, r"none of 40 groups in 2 generation batch\(es\) carries a signal .*Use easier or harder prompts")
    assert run.evaluations.steps("pocket") == [0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "message"),
    [
        ("ray::WorkerDict", r"a worker process died"),
        ("raylet/raylet", r"(Ray ended|a worker process died)"),
        ("gcs/gcs_server", r"Ray ended"),
    ],
)
def test_a_killed_process_of_rays_fails_the_run_and_its_step_stays(tmp_path, victim, message):
    process = start(tmp_path, "training.steps=400", "method=gdpo")
    try:
        wait_for(lambda: list(tmp_path.glob(f"*/{FIRST_CHECKPOINT}")), LIMIT, process)
        run = only_run(tmp_path)
        victims = [pid for pid, command in processes_of(run) if victim in command]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        assert process.wait(180) == 1
    finally:
        process.kill()
        process.wait()
    failed(run, message + r".*start the run again \(retry=true\), it continues from its last checkpoint")
    assert run.metrics.rows()[0]["step"] == 1
    assert (run.rollouts / "1.jsonl").exists()
    assert (run.path / FIRST_CHECKPOINT).exists()
    wait_for(lambda: not processes_of(run), 30)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 5 MiB: the first checkpoint of the pocket model fits, the second does not."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=5m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system takes root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.slow
def test_a_full_disk_fails_the_run_and_its_checkpoint_stays(small_disk):
    result = train(small_disk, "training.steps=4", "method=gdpo")
    assert result.returncode == 1
    run = only_run(small_disk)
    failed(run, r"free space")
    rows = run.metrics.rows()
    assert rows
    saved = int((run.path / FIRST_CHECKPOINT).read_text())
    assert saved in [row["step"] for row in rows]
    assert (run.checkpoints / f"global_step_{saved}" / "data.pt").exists()


@pytest.mark.slow
def test_an_unknown_estimator_stops_a_plain_users_run_before_its_workers_start(tmp_path):
    result = run_plain(tmp_path, "[correctness,format]", estimator="dara_asim")
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "algorithm.adv_estimator=dara_asim is unknown: did you mean 'dara_asym'?" in text
    assert "WorkerDict" not in text


@pytest.mark.slow
def test_a_channel_typo_stops_a_plain_users_run_at_the_first_step(tmp_path):
    result = run_plain(tmp_path, "[correctness,fromat]")
    assert result.returncode != 0
    text = result.stdout + result.stderr
    assert "no channel 'fromat' for 32 of 32 responses; keys found: correctness, format, score" in text
    assert "density/format:" not in result.stdout

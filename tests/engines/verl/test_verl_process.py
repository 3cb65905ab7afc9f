"""One attempt: what a trainer hands over is stored once, what a killed one left is adopted, causes are named."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from harness.compose import CONF, Composer, register_methods
from harness.engines.verl import child, process, storage
from harness.errors import UserError
from harness.store import RunStore


@pytest.fixture(scope="module")
def config():
    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return Composer(GlobalHydra.instance().config_loader()).compose(["engine=verl", "engine.device=cpu"])


@pytest.fixture
def run(config, tmp_path):
    return RunStore(tmp_path).create(config)


def hand_over(run, *steps: int, attempt: int = 1, tail: str = "") -> None:
    path = run.path / storage.STEPS_FILE
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        for step in steps:
            values = {"reward/format": 0.5, "responses_in_step": 100, "seconds": 1.0}
            file.write(json.dumps({"attempt": attempt, "step": step, "values": values}) + "\n")
        file.write(tail)


def test_steps_are_stored_as_they_come_and_responses_add_up(run):
    run.begin_attempt({})
    steps = process._Steps(run)
    hand_over(run, 1, 2, tail='{"attempt": 1, "st')
    steps.take()
    steps.take()
    rows = run.metrics.rows()
    assert [(row["step"], row["responses_generated"]) for row in rows] == [(1, 100), (2, 200)]
    assert rows[0]["reward/format"] == 0.5
    assert "responses_in_step" not in rows[0]


def test_a_step_behind_a_checkpoint_is_adopted_after_a_kill_and_later_ones_are_not(run):
    run.begin_attempt({})
    steps = process._Steps(run)
    hand_over(run, 1, 2)
    steps.take()
    hand_over(run, 3, 4)  # the process that stores died before it read these; the checkpoint is of step 3
    run.end_attempt("failed", "killed")
    run.metrics.close()

    run.begin_attempt({})
    steps = process._Steps(run)
    steps.adopt_left_over(3)
    hand_over(run, 4, 5, attempt=2)
    steps.take()
    rows = run.metrics.rows()
    assert [(row["step"], row["attempt"], row["responses_generated"]) for row in rows] == [
        (1, 1, 100),
        (2, 1, 200),
        (3, 2, 300),
        (4, 2, 400),
        (5, 2, 500),
    ]


def test_steps_after_the_checkpoint_are_done_again(run):
    run.begin_attempt({})
    steps = process._Steps(run)
    hand_over(run, 1, 2, 3)
    steps.take()
    run.metrics.close()
    run.begin_attempt({})
    steps = process._Steps(run)
    steps.adopt_left_over(2)
    hand_over(run, 3, attempt=2)
    steps.take()
    assert [(row["step"], row["attempt"], row["responses_generated"]) for row in run.metrics.rows()] == [
        (1, 1, 100),
        (2, 1, 200),
        (3, 2, 300),
    ]


class ActorDiedError(Exception):
    pass


class NoInformativeGroupError(RuntimeError):
    pass


def wrapped(inner: BaseException) -> BaseException:
    outer = RuntimeError("task failed")
    outer.cause = inner  # type: ignore[attr-defined]
    return outer


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "the disk is full; free space"),
        (ActorDiedError("SIGKILL"), r"a worker process died, .*continues from its last checkpoint"),
        (RuntimeError("Failed to connect to GCS"), "Ray ended"),
        (RuntimeError("CUDA out of memory. Tried"), r"out of memory .*memory_fraction"),
        (NoInformativeGroupError("none of 8 groups"), "^none of 8 groups"),
        (ValueError("channel 'format' is infinite"), "^ValueError: channel 'format' is infinite"),
    ],
)
def test_causes_are_one_line_with_a_remedy(error, message):
    text = child.explain(list(child._causes(wrapped(error))))
    assert re.search(message, text)
    assert "\n" not in text


def test_a_cause_survives_in_the_file(tmp_path):
    assert child.read_error(tmp_path / child.ERROR) is None
    (tmp_path / child.ERROR).write_text(json.dumps({"cause": "why"}))
    assert child.read_error(tmp_path / child.ERROR) == "why"


def test_the_plan_is_a_command_anyone_can_run(config, tmp_path):
    path = process.write_plan(config, tmp_path, {"a.b": "it's", "+c": [1, None]})
    text = path.read_text()
    assert "python -m verl.trainer.main_ppo" in text
    assert "VERL_PLATFORM=cpu" in text
    assert (tmp_path / "verl" / child.ARGUMENTS).read_text().splitlines() == ["a.b='it\\'s'", "+c=[1, null]"]


def test_without_verl_the_message_says_what_to_install(config, run, monkeypatch):
    monkeypatch.setattr(process.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[verl\]'"):
        process.train(config, run, lambda: False)
    assert not (run.path / "verl").exists()


def test_nothing_of_verl_is_imported_before_it_is_needed():
    import harness.engines.verl as engine

    source = Path(str(engine.__file__)).read_text()
    assert "import verl" not in source


@pytest.mark.parametrize(
    ("code", "cause", "message"),
    [
        (child.FULL, None, "the disk is full"),
        (-9, None, "killed by signal 9.*continues from its last checkpoint"),
        (1, None, "ended with exit code 1"),
        (1, "channel 'format' is infinite", "^channel 'format' is infinite"),
    ],
)
def test_how_a_child_ended_is_said_with_its_log_and_nothing_half_written_stays(config, run, code, cause, message):
    ended = process._Child(config, run, 1, process._Steps(run))
    ended.folder.mkdir()
    if cause is not None:
        ended.error.write_text(json.dumps({"cause": cause}))
    (run.checkpoints / "global_step_5").mkdir()
    with pytest.raises(process.TrainingFailedError, match=message) as raised:
        ended._judge(code)
    assert "attempt_1.log" in str(raised.value)
    assert not (run.checkpoints / "global_step_5").exists()


@pytest.mark.parametrize("code", [0, child.STOPPED])
def test_a_run_that_ended_or_stopped_as_asked_is_no_failure(config, run, code):
    process._Child(config, run, 1, process._Steps(run))._judge(code)


def test_a_dry_run_writes_the_commands_and_builds_nothing(config, tmp_path, capsys, monkeypatch):
    from harness.config import run_id
    from harness.engines import verl as engine

    monkeypatch.setenv("DARA_CACHE", str(tmp_path / "cache"))
    engine.plan([config], tmp_path)
    path = tmp_path / ".verl" / "dry_run" / f"{run_id(config)}.sh"
    assert "algorithm.adv_estimator=dara_asym" in path.read_text()
    assert path.read_text() in capsys.readouterr().out
    assert not (tmp_path / "cache").exists()


def test_what_a_group_raised_is_taken_from_the_log(config, run):
    ended = process._Child(config, run, 1, process._Steps(run))
    ended.folder.mkdir()
    ended.log.write_text(
        "(RewardLoopWorker pid=1) ZeroDivisionError: elsewhere\n"
        "\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m ERROR:2026-01-01:Error in _run_prompt for uid=a\n"
        "\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m ray.exceptions.RayTaskError(ValueError): ray::compute_score()\n"
        '\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m   File "reward.py", line 3, in compute_score\n'
        "\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m ValueError: unknown task 'sums'\n"
        "\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m ERROR:2026-01-01:Error in _run_prompt for uid=b\n"
        "\x1b[36m(AgentLoopWorkerTQ pid=2)\x1b[0m KeyError: 'later'\n"
    )
    ended.error.write_text(json.dumps({"cause": "raised an error for 2 of 2 groups ('Error in _run_prompt')"}))
    with pytest.raises(process.TrainingFailedError, match=r"The first of them: ValueError: unknown task 'sums' \(log"):
        ended._judge(1)


def test_a_driver_that_ray_ended_is_told_from_a_killed_one_by_the_log(config, run):
    ended = process._Child(config, run, 1, process._Steps(run))
    ended.folder.mkdir()
    ended.log.write_text("E rpc_client.h:204: Failed to connect to GCS within 60 seconds. GCS may have been killed.\n")
    with pytest.raises(process.TrainingFailedError, match=r"^Ray ended; start the run again"):
        ended._judge(1)


def test_what_outlives_the_child_in_its_session_is_ended(monkeypatch):
    monkeypatch.setattr(process, "REST_SECONDS", 0.5)
    # The child ends at once; a grandchild that ignores SIGTERM stays.
    left = subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 60 & exit 0"], start_new_session=True)
    left.wait()
    assert process._members(left.pid)
    process._end(left)
    limit = time.monotonic() + 5
    while process._members(left.pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert process._members(left.pid) == []

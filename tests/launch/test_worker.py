"""One run in one process: how it ends, what it writes down, what it answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from harness.config import RunConfig
from harness.launch.worker import BUSY, FAILED, FINISHED, INTERRUPTED, MISTAKE
from harness.store import Run, RunStore

MakeRun = Callable[..., RunConfig]


def worker(run: Run, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "harness.launch.worker", str(run.path), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def work(run: Run) -> tuple[int, str]:
    process = worker(run)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def wait_for_step(run: Run, step: int) -> None:
    deadline = time.monotonic() + 30
    while run.metrics.last_step() < step:
        assert time.monotonic() < deadline, run.last_log_lines(20)
        time.sleep(0.02)


def test_a_run_is_trained_to_its_end(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run())
    code, errors = work(run)
    assert (code, run.status().state) == (FINISHED, "done"), errors
    attempt = run.manifest.read()["attempts"][0]
    assert (attempt["outcome"], attempt["error"]) == ("finished", None)
    lines = run.last_log_lines(10)
    assert "attempt 1 begins at step 0 of 5, pid" in lines[0]
    assert lines[-1].endswith("finished")
    code, _ = work(run)
    assert (code, len(run.manifest.read()["attempts"])) == (FINISHED, 1)


def test_an_error_is_written_down_with_its_place(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run(fail_at=3))
    code, errors = work(run)
    assert code == FAILED
    attempt = run.manifest.read()["attempts"][0]
    assert attempt["outcome"] == "failed"
    assert attempt["error"].startswith("ValueError: no luck at step 3 (engine.py:")
    assert attempt["error"] in errors
    assert "Traceback" not in errors
    assert "Traceback" in run.log_path.read_text()
    assert run.status().reason.startswith("attempt 1 failed at step 2 of 5: ValueError: no luck at step 3")


def test_an_engine_that_returns_early_has_failed(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run(return_at=3))
    code, _ = work(run)
    assert (code, run.status().state) == (FAILED, "failed")
    assert "the engine returned although the run is not done" in run.status().reason


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_after_the_step_with_a_checkpoint(
    store: RunStore, make_run: MakeRun, number: signal.Signals
) -> None:
    run = store.create(make_run(steps=100, seconds=0.05))
    process = worker(run)
    wait_for_step(run, 2)
    process.send_signal(number)
    assert process.wait(timeout=30) == INTERRUPTED
    status = run.status()
    assert status.state == "interrupted"
    assert f"asked to stop ({number.name})" in status.reason
    assert f'"step": {status.step}' in (run.checkpoints / "count.json").read_text()
    assert process.stderr is not None
    process.stderr.close()


def test_a_second_worker_is_refused_and_changes_nothing(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run(steps=60, seconds=0.05))
    first = worker(run)
    wait_for_step(run, 1)
    code, errors = work(run)
    assert code == BUSY
    assert f"is being worked on by worker (pid {first.pid} on" in errors
    assert first.wait(timeout=60) == FINISHED
    assert len(run.manifest.read()["attempts"]) == 1
    assert [row["attempt"] for row in run.metrics.rows()] == [1] * 60
    assert first.stderr is not None
    first.stderr.close()


def test_a_killed_worker_is_replaced_and_the_run_continues(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run(steps=12, die_at=11))
    code, _ = work(run)
    assert code == -signal.SIGKILL
    assert run.status().state == "interrupted"
    assert "ended without a word, step 11 of 12" in run.status().reason
    code, errors = work(run)
    assert (code, run.status().state) == (FINISHED, "done"), errors
    assert [row["step"] for row in run.metrics.rows()] == list(range(1, 13))
    assert [row["attempt"] for row in run.metrics.rows()] == [1] * 10 + [2] * 2
    assert "took over the lock of worker (pid" in run.log_path.read_text()


def test_it_stops_when_its_parent_is_not_the_one_named(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run(steps=100, seconds=0.05))
    process = worker(run, "--parent", str(os.getpid() + 1))
    assert process.wait(timeout=30) == INTERRUPTED
    assert "its launcher is gone" in run.status().reason
    assert process.stderr is not None
    process.stderr.close()


def test_mistakes_are_one_line(store: RunStore, make_run: MakeRun) -> None:
    run = store.create(make_run())
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("seed: 0", "seed: 7"))
    code, errors = work(run)
    assert code == MISTAKE
    assert errors.startswith("error: ")
    assert "was edited" in errors
    assert errors.count("\n") == 1
    code, errors = work(Run(store.root / "nothing"))
    assert (code, errors.count("\n")) == (MISTAKE, 1)


def test_wandb_offline_follows_and_its_failure_is_no_matter(store: RunStore, make_run: MakeRun, tmp_path, monkeypatch):
    import dataclasses

    config = make_run()
    wandb = dataclasses.replace(config.output.wandb, mode="offline")
    run = store.create(dataclasses.replace(config, output=dataclasses.replace(config.output, wandb=wandb)))
    stub = tmp_path / "plugins" / "wandb.py"
    stub.write_text(
        "import json, os\n"
        "class Run:\n"
        "    def define_metric(self, *a, **k): pass\n"
        "    def log(self, values):\n"
        "        open(os.environ['SEEN'], 'a').write(json.dumps(values) + '\\n')\n"
        "        if values['step'] == 3: raise RuntimeError('no network')\n"
        "    def finish(self): pass\n"
        "def init(**k):\n"
        "    assert os.environ['WANDB_MODE'] == 'offline' and k['id'] == k['name'] and k['resume'] == 'allow'\n"
        "    return Run()\n"
    )
    monkeypatch.setenv("SEEN", str(tmp_path / "seen.jsonl"))
    code, errors = work(run)
    assert (code, run.status().state) == (FINISHED, "done"), errors
    text = run.log_path.read_text()
    assert text.count("warning: wandb, logging: RuntimeError: no network; training goes on") == 1, text
    assert len((tmp_path / "seen.jsonl").read_text().splitlines()) == 6  # five steps and the evaluation


def test_wandb_that_cannot_be_imported_is_no_matter(store: RunStore, make_run: MakeRun, tmp_path):
    import dataclasses

    config = make_run()
    wandb = dataclasses.replace(config.output.wandb, mode="online")
    run = store.create(dataclasses.replace(config, output=dataclasses.replace(config.output, wandb=wandb)))
    (tmp_path / "plugins" / "wandb.py").write_text("raise ImportError('broken')\n")
    code, errors = work(run)
    assert (code, run.status().state) == (FINISHED, "done"), errors
    assert "warning: wandb, starting: ImportError: broken" in run.log_path.read_text()

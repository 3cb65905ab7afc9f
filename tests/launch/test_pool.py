"""A matrix in worker processes: what runs, what is left alone, and what remains when someone pulls the plug."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from harness.config import RunConfig, run_id
from harness.errors import UserError
from harness.launch import pool
from harness.launch.pool import Outcome, run_matrix
from harness.store import Run, RunStore

MakeRun = Callable[..., RunConfig]
HERE = Path(__file__).parent


def launch(configs: list[RunConfig], store: RunStore, *, retry: bool = False, workers: int = 2) -> tuple[Outcome, str]:
    text = io.StringIO()
    console = Console(file=text, highlight=False, width=200)
    outcome = run_matrix(configs, store=store, workers=workers, retry=retry, console=console)
    return outcome, text.getvalue()


def matrix(store: RunStore, *, steps: int, seconds: float, methods: tuple[str, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, str(HERE / "run_matrix.py"), str(store.root), str(steps), str(seconds), *methods]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def training(store: RunStore, count: int) -> bool:
    return sum(run.metrics.last_step() > 0 for run in store.runs()) == count


def states(store: RunStore) -> list[str]:
    return [run.status().state for run in store.runs()]


def test_a_matrix_is_trained_and_then_left_alone(store: RunStore, make_run: MakeRun) -> None:
    configs = [make_run("gdpo"), make_run("dara_sym"), make_run("dara_asym")]
    outcome, text = launch(configs, store)
    assert outcome.exit_code == 0, text
    assert sorted(outcome.done) == sorted(map(run_id, configs))
    assert "3 runs in" in text
    assert "3 new" in text
    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*")}
    outcome, text = launch(configs, store)
    assert (outcome.exit_code, len(outcome.done)) == (0, 3)
    assert "3 done" in text
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*")} == before


def test_a_failing_run_stops_no_other_and_is_shown_with_its_error(store: RunStore, make_run: MakeRun) -> None:
    configs = [make_run("grpo", fail_at=2), make_run("gdpo", seconds=0.1), make_run("dara_sym")]
    outcome, text = launch(configs, store)
    assert outcome.exit_code == 1
    assert outcome.failed == [run_id(configs[0])]
    assert len(outcome.done) == 2
    assert "failed: grpo seed=0: attempt 1 failed at step 1 of 5: ValueError: no luck at step 2" in text
    assert str(store.root / run_id(configs[0]) / "log.txt") in text
    lines = text.splitlines()
    failed = next(number for number, line in enumerate(lines) if line.startswith("failed:"))
    done = next(number for number, line in enumerate(lines) if line.startswith("done   gdpo"))
    assert failed < done, "the error is shown while others still train"

    outcome, text = launch(configs, store)
    assert outcome.exit_code == 1
    assert "retry=true starts it again" in text
    assert store.get(run_id(configs[0])).status().attempts == 1
    outcome, _ = launch(configs, store, retry=True)
    assert outcome.exit_code == 1
    assert store.get(run_id(configs[0])).status().attempts == 2


def test_a_worker_that_is_killed_leaves_a_run_to_continue(store: RunStore, make_run: MakeRun) -> None:
    configs = [make_run("gdpo", die_at=3), make_run("grpo")]
    outcome, text = launch(configs, store)
    assert outcome.exit_code == 1
    assert outcome.interrupted == [run_id(configs[0])]
    assert "killed by signal 9 (SIGKILL, perhaps for lack of memory)" in text
    outcome, text = launch(configs, store)
    assert outcome.exit_code == 0, text


def test_an_engine_that_cannot_be_imported(store: RunStore, make_run: MakeRun, tmp_path: Path) -> None:
    config = make_run()
    (tmp_path / "plugins" / "fakes" / "engine.py").write_text("import missing_library\n")
    with pytest.raises(UserError, match="nothing was started"):
        launch([config], store)
    assert store.get(run_id(config)).status().state == "new"


def test_what_runs_share_is_prepared_once_and_only_if_something_starts(
    store: RunStore, make_run: MakeRun, tmp_path: Path
) -> None:
    marker = tmp_path / "prepared"
    configs = [make_run(name, prepare=str(marker)) for name in ("gdpo", "grpo")]
    launch(configs, store)
    assert len(set(marker.read_text().split())) == 1
    assert len(marker.read_text().split()) == 2  # once for each configuration, all in one process
    launch(configs, store)
    assert len(marker.read_text().split()) == 2


def test_a_damaged_run_is_named_and_the_others_train(store: RunStore, make_run: MakeRun) -> None:
    configs = [make_run("gdpo"), make_run("grpo")]
    path = store.create(configs[0]).path / "config.yaml"
    path.write_text(path.read_text().replace("group_size: 4", "group_size: 8"))
    outcome, text = launch(configs, store)
    assert (outcome.exit_code, outcome.failed, outcome.done) == (1, [run_id(configs[0])], [run_id(configs[1])])
    assert "damaged: " in text
    assert "was edited" in text


def test_interrupt_leaves_every_run_to_continue(store: RunStore, make_run: MakeRun) -> None:
    make_run()
    methods = ("gdpo", "grpo", "dara_sym")
    process = matrix(store, steps=40, seconds=0.1, methods=methods)
    wait_until(lambda: store.root.exists() and training(store, 2))
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 130, output
    assert "stopping after the current step" in output
    assert "the same command continues" in output
    assert "Traceback" not in output
    assert sorted(states(store)) == ["interrupted", "interrupted", "new"]
    for run in store.runs():
        assert "asked to stop" in run.status().reason or run.status().state == "new"
    process = matrix(store, steps=40, seconds=0.0, methods=methods)
    output, _ = process.communicate(timeout=60)
    assert (process.returncode, states(store)) == (0, ["done"] * 3), output
    for run in store.runs():
        assert [row["step"] for row in run.metrics.rows()] == list(range(1, 41))


def test_a_second_interrupt_ends_at_once_and_loses_nothing(store: RunStore, make_run: MakeRun) -> None:
    make_run()
    process = matrix(store, steps=3, seconds=20.0, methods=("gdpo",))
    wait_until(lambda: store.root.exists() and [run.status().attempts for run in store.runs()] == [1])
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=10)
    assert process.returncode == 130, output
    assert states(store) == ["interrupted"]


def test_workers_of_a_killed_launcher_stop_and_their_runs_continue(store: RunStore, make_run: MakeRun) -> None:
    make_run()
    methods = ("gdpo", "grpo")
    process = matrix(store, steps=30, seconds=0.1, methods=methods)
    wait_until(lambda: store.root.exists() and training(store, 2))
    process.kill()
    process.communicate()
    wait_until(lambda: states(store) == ["interrupted"] * 2)
    assert all("its launcher is gone" in run.status().reason for run in store.runs())
    process = matrix(store, steps=30, seconds=0.1, methods=methods)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    for run in store.runs():
        assert [row["step"] for row in run.metrics.rows()] == list(range(1, 31))


def test_two_launchers_at_once_train_every_run_once(store: RunStore, make_run: MakeRun) -> None:
    make_run()
    methods = ("gdpo", "grpo", "dara_sym", "dara_asym")
    processes = [matrix(store, steps=10, seconds=0.05, methods=methods) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert states(store) == ["done"] * 4, outputs
    assert all(process.returncode in (0, pool.ELSEWHERE) for process in processes), outputs
    for run in store.runs():
        assert run.status().attempts == 1
        assert len(run.metrics.read().lines) == 10


def test_a_run_trained_elsewhere_is_not_touched(store: RunStore, make_run: MakeRun) -> None:
    config = make_run()
    run = store.create(config)
    with run.lock("somebody"):
        run.begin_attempt({})
        outcome, text = launch([config, make_run("grpo")], store)
    assert (outcome.exit_code, outcome.elsewhere) == (pool.ELSEWHERE, [run_id(config)])
    assert f"somebody (pid {os.getpid()} on" in text


def test_settings_outside_the_identity_reach_a_run_that_continues(store: RunStore, make_run: MakeRun) -> None:
    first, second = make_run(fail_at=2), make_run()
    assert run_id(first) == run_id(second)
    launch([first], store)
    outcome, text = launch([second], store, retry=True)
    assert outcome.exit_code == 0, text


def test_options_are_checked(store: RunStore, make_run: MakeRun) -> None:
    for options, words in (({"worker": 2}, "did you mean 'workers'"), ({"workers": 0}, "at least 1")):
        with pytest.raises(UserError, match=words):
            pool.launch([make_run()], store=store, options=options, retry=False)
    assert not store.root.exists()


def test_an_unwritable_folder_is_one_line(tmp_path: Path, make_run: MakeRun) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"output\.runs=FOLDER"):
        launch([make_run()], RunStore(tmp_path / "file" / "runs"))


def test_a_full_disk_is_named_and_loses_nothing(tmp_path: Path, make_run: MakeRun) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root")
    try:
        store = RunStore(folder / "runs")
        config = make_run(fill_at=3)
        outcome, text = launch([config], store)
        assert outcome.exit_code == 1
        assert f"no space left on the disk of {folder}" in text
        run = store.get(run_id(config))
        assert run.status().state == "interrupted"
        logged = [row["step"] for row in run.metrics.rows()]
        assert logged == list(range(1, len(logged) + 1))
        assert len(logged) >= 2
        (run.checkpoints / "full").write_text("")
        outcome, text = launch([config], store)
        assert outcome.exit_code == 0, text
        assert [row["step"] for row in run.metrics.rows()] == [1, 2, 3, 4, 5]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_nohup_stays_in_force() -> None:
    script = (
        "import os, signal\n"
        "from harness.launch.pool import _Signals\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "with _Signals() as signals:\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    assert signals.received == 0\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    assert signals.received == 1\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=HERE.parents[1])


def test_the_closing_table(store: RunStore, make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [make_run("gdpo"), make_run("grpo")]
    assert pool.launch(configs, store=store, options={"workers": 2}, retry=False) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if "gdpo" in line and "0.250" in line)
    cells = [cell for cell in row.replace("│", " ").split() if cell]
    # format = step / 5 reaches 0.8 at step 4; mean of the last five 0.6; density 0.25 from step 1 on
    assert cells == ["gdpo", "0", "5/5", "4", "-1.000", "0.600", "0.250", "(1)"]
    assert str(store.root / run_id(configs[0])) in text.replace("\n", "")
    assert "One seed (seed 0) proves nothing" in text


def test_a_run_in_the_store_is_found(store: RunStore, make_run: MakeRun) -> None:
    assert store.find(make_run()) is None
    run = store.create(make_run())
    found = store.find(make_run())
    assert isinstance(found, Run)
    assert found.run_id == run.run_id

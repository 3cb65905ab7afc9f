"""One owner at a time: among many processes, after sudden deaths, across hosts."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.store import lock as lock_module
from harness.store.lock import STALE_SECONDS, LockBusyError, LockLostError, RunLock, read_owner
from harness.store.process import is_alive, this_process

HOLD = """
import sys, time
from pathlib import Path
from harness.store.lock import RunLock
with RunLock(Path(sys.argv[1]), "holder"):
    print("held", flush=True)
    time.sleep(60)
"""

CONTEND = """
import os, random, signal, sys, time
from pathlib import Path
from harness.store.lock import LockBusyError, RunLock
folder, seed = Path(sys.argv[1]), int(sys.argv[2])
deaths, pauses = random.Random(seed), random.Random(-seed)
inside = folder / "inside"
held = 0
while held < 25:
    try:
        with RunLock(folder, f"contender {seed}"):
            held += 1
            if inside.exists():
                other = int(inside.read_text() or 0)
                state = Path(f"/proc/{other}/stat")
                if other and state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
                    (folder / f"violation-{seed}").write_text(f"{other} was inside")
            inside.write_text(str(os.getpid()))
            with open(folder / "log", "a") as log:
                log.write(f"{seed}\\n")
            time.sleep(pauses.random() * 0.005)
            if deaths.random() < 0.05:
                os.kill(os.getpid(), signal.SIGKILL)
            inside.unlink()
    except LockBusyError:
        time.sleep(pauses.random() * 0.002)
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def foreign_owner(folder: Path, *, age: float, **changes: object) -> None:
    """A lock held by a process that is not of this machine, last heard of ``age`` seconds ago."""
    process = {**dataclasses.asdict(this_process()), "host": "elsewhere", **changes}
    lock = folder / "lock"
    lock.mkdir()
    path = lock / "0123.json"
    path.write_text(json.dumps({"name": "worker", "process": process, "since": 0.0}))
    os.utime(path, (time.time() - age, time.time() - age))


def test_a_held_lock_is_refused_and_names_its_owner(tmp_path: Path) -> None:
    with RunLock(tmp_path, "first"), pytest.raises(LockBusyError, match=rf"first \(pid {os.getpid()} on "):
        RunLock(tmp_path, "second").acquire()
    assert read_owner(tmp_path) is None
    with RunLock(tmp_path, "third"):
        pass


def test_another_process_holds_it(tmp_path: Path) -> None:
    holder = start(HOLD, tmp_path)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockBusyError, match=f"pid {holder.pid} on"):
            RunLock(tmp_path, "second").acquire()
        holder.send_signal(signal.SIGKILL)
        time.sleep(0.1)  # not waited for: a zombie is dead as well
        lock = RunLock(tmp_path, "second")
        with lock:
            assert lock.replaced is not None
            assert lock.replaced.process.pid == holder.pid
    finally:
        holder.kill()
        holder.wait()


def test_many_processes_that_die_at_any_time_never_overlap(tmp_path: Path) -> None:
    processes = [start(CONTEND, tmp_path, seed) for seed in range(8)]
    for process in processes:
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    assert list(tmp_path.glob("violation-*")) == []
    killed = sum(process.returncode == -signal.SIGKILL for process in processes)
    assert 3 <= killed <= 7, "the deaths and survivals that this test is about did not happen"
    assert [process.returncode for process in processes if process.returncode >= 0] == [0] * (8 - killed)
    assert len((tmp_path / "log").read_text().splitlines()) > 50


def test_a_pid_used_again_is_not_the_owner(tmp_path: Path) -> None:
    me = this_process()
    assert is_alive(me) is True
    assert is_alive(dataclasses.replace(me, started="1")) is False
    assert is_alive(dataclasses.replace(me, pid=2**22 + 1)) is False
    foreign_owner(tmp_path, age=0.0, host=socket.gethostname(), started="1")
    with RunLock(tmp_path, "next") as lock:
        assert lock.replaced is not None


@pytest.mark.parametrize("changes", [{"host": "elsewhere"}, {"host": socket.gethostname(), "space": "earlier boot"}])
def test_an_owner_of_another_host_or_boot_is_judged_by_its_heartbeat(tmp_path: Path, changes: dict[str, str]) -> None:
    foreign_owner(tmp_path, age=STALE_SECONDS - 20, **changes)
    with pytest.raises(LockBusyError, match=r"heartbeat 1[56]\d s ago"):
        RunLock(tmp_path, "next").acquire()
    path = tmp_path / "lock" / "0123.json"
    os.utime(path, (time.time() - STALE_SECONDS - 5,) * 2)
    with RunLock(tmp_path, "next") as lock:
        assert lock.replaced is not None
        assert str(lock.replaced).startswith("worker (pid")


def test_an_owner_file_that_cannot_be_read_is_judged_by_its_heartbeat(tmp_path: Path) -> None:
    foreign_owner(tmp_path, age=0.0)
    path = tmp_path / "lock" / "0123.json"
    path.write_text("{")
    with pytest.raises(LockBusyError, match="unreadable owner"):
        RunLock(tmp_path, "next").acquire()
    os.utime(path, (0, 0))
    with RunLock(tmp_path, "next"):
        pass


def test_a_late_witness_cannot_end_the_successor(tmp_path: Path) -> None:
    foreign_owner(tmp_path, age=STALE_SECONDS + 5)
    seen = read_owner(tmp_path)
    assert seen is not None
    with RunLock(tmp_path, "successor"):
        assert not lock_module._end(tmp_path, seen.nonce)
        owner = read_owner(tmp_path)
        assert owner is not None
        assert owner.name == "successor"


def test_an_owner_taken_for_dead_notices_and_leaves_its_successor_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = RunLock(tmp_path, "first")
    first.acquire()
    owner = read_owner(tmp_path)
    assert owner is not None
    assert lock_module._end(tmp_path, owner.nonce)  # what a successor on another host does
    second = RunLock(tmp_path, "second")
    second.acquire()
    with pytest.raises(LockLostError, match="another process took the run over"):
        first.check()
    first.release()
    second.check()
    second.release()


def test_the_heartbeat_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "HEARTBEAT_SECONDS", 0.05)
    with RunLock(tmp_path, "owner"):
        path = next((tmp_path / "lock").iterdir())
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 5
        while path.stat().st_mtime == 0 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert path.stat().st_mtime > 0

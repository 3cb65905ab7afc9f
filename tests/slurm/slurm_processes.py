"""Daemons by their pid files, and what /proc says about processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid_file: Path) -> bool:
    pid = pid_in(pid_file)
    return pid is not None and exists(pid)


def pid_in(pid_file: Path) -> int | None:
    try:
        return int(pid_file.read_text())
    except (OSError, ValueError):
        return None


def exists(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] not in ("Z", "X")


def end(pid_file: Path, number: int = signal.SIGTERM) -> None:
    pid = pid_in(pid_file)
    if pid is None or not exists(pid):
        return
    os.kill(pid, number)
    if not wait(15, lambda: not exists(pid), "", required=False):
        os.kill(pid, signal.SIGKILL)
        wait(5, lambda: not exists(pid), f"process {pid} to end")
    pid_file.unlink(missing_ok=True)


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0


def wait(seconds: float, condition: Callable[[], bool], what: str, *, required: bool = True) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    if required:
        raise TimeoutError(f"waited {seconds:g} s for {what}")
    return False

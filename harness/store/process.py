"""Which process is this, and is that one still alive? A pid alone does not say: pids are reused."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class ProcessIdentity:
    """A process for all time: ``space`` names the boot and the pid namespace in which ``pid`` has a meaning."""

    host: str
    space: str
    pid: int
    started: str


def this_process() -> ProcessIdentity:
    pid = os.getpid()
    return ProcessIdentity(host=socket.gethostname(), space=_space(), pid=pid, started=_started(pid) or "")


def is_alive(process: ProcessIdentity) -> bool | None:
    """True or False for a process of this machine; None where only its heartbeat can tell (another host or boot)."""
    if process.host != socket.gethostname() or process.space != _space():
        return None
    return _started(process.pid) == process.started


@functools.cache
def _space() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return _output("sysctl", "-n", "kern.bootsessionuuid")


def _started(pid: int) -> str | None:
    """When the process started, in a form that differs between two holders of one pid; None: no such process."""
    if Path("/proc/self/stat").exists():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in ("Z", "X") else fields[19]
    return _output("ps", "-o", "lstart=", "-p", str(pid)) or None


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""

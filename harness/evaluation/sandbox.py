"""Where model text is executed: a child process without network, secrets, write access or privileges, under limits.

``namespaces`` needs Linux with user namespaces; where they are not to be had the evaluation refuses to run, unless
``sandbox=off`` is given explicitly: then only the limits, the empty environment and the throw-away folder remain.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from harness.errors import UserError, nearest
from harness.evaluation import sandbox_launch

MODES = ("namespaces", "off")
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
_PROBE_SECONDS = 60
_FAREWELL_SECONDS = 1.0
"""For a program that ends by itself when its input does."""


@dataclass(frozen=True)
class Limits:
    """Bytes of address space (each process), processes, bytes and files on the writable folders, bytes of one file,
    open files, processor seconds (each process)."""

    memory: int = 2 << 30
    processes: int = 32
    disk: int = 64 << 20
    files: int = 4096
    file_size: int = 16 << 20
    open_files: int = 128
    cpu: int = 600


@dataclass(frozen=True)
class Sandbox:
    mode: str = "namespaces"
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"sandbox={self.mode} is unknown: {nearest(self.mode, MODES)}")

    def start(
        self, argv: Sequence[str], readable: Sequence[Path], environment: Mapping[str, str] | None = None
    ) -> SandboxedProcess:
        """Start ``argv`` (an absolute program) with pipes for standard input, output and error.

        ``readable``: files and folders it may read, besides the system's libraries. ``environment`` is all it gets.
        """
        folder = tempfile.mkdtemp(prefix="harness-sandbox-")
        shown = [
            *(path for path in _SYSTEM if os.path.lexists(path)),
            *(str(Path(path).absolute()) for path in readable),
        ]
        inside = "/sandbox" if self.mode == "namespaces" else folder
        settings = {
            "mode": self.mode,
            "folder": folder,
            "readable": _with_link_targets(shown),
            "limits": asdict(self.limits),
            "argv": list(argv),
            "environment": {
                "PATH": "/usr/bin:/bin",
                "HOME": inside,
                "TMPDIR": inside,
                "LANG": "C.UTF-8",
                **(environment or {}),
            },
        }
        script = str(Path(sandbox_launch.__file__).resolve())
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", script, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"LANG": "C.UTF-8"},
            start_new_session=True,
        )
        return SandboxedProcess(process, folder)

    def require(self) -> None:
        """UserError when this machine cannot give what the mode promises."""
        if self.mode == "off":
            return
        reason = self.problem()
        if reason:
            raise UserError(
                f"model text would be executed, and this machine has no sandbox for it ({reason}): allow unprivileged "
                "user namespaces, or give sandbox=off if the machine itself is disposable"
            )

    def problem(self) -> str | None:
        """Why the sandbox cannot be built here, or None."""
        if sys.platform != "linux":
            return f"{sys.platform} has no namespaces"
        python, readable = interpreter(Path(sys.executable))
        process = self.start([python, "-I", "-S", "-c", "print('inside')"], readable)
        try:
            output, errors = process.popen.communicate(timeout=_PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            return f"no answer within {_PROBE_SECONDS} s"
        finally:
            process.close()
        if output.strip() == b"inside":
            return None
        return " ".join(errors.decode(errors="replace").split())[:200] or f"exit status {process.popen.returncode}"


class SandboxedProcess:
    """A running program; :meth:`close` ends it and everything it started and removes its folder."""

    def __init__(self, popen: subprocess.Popen[bytes], folder: str) -> None:
        self.popen = popen
        self._folder = folder

    def close(self) -> None:
        if self.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_FAREWELL_SECONDS)
        if self.popen.poll() is None:
            self.popen.kill()  # the launcher's children die with it, the PID namespace with them
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def interpreter(python: Path) -> tuple[str, list[Path]]:
    """(program, what must be readable for it) of a Python interpreter, inside a virtual environment or not."""
    absolute = python.absolute()
    real = absolute.resolve()
    readable = [real.parent.parent]
    if absolute != real and (absolute.parent.parent / "pyvenv.cfg").exists():
        readable.append(absolute.parent.parent)
    return str(absolute), [path for path in readable if not str(path).startswith("/usr")]


def _with_link_targets(paths: Sequence[str]) -> list[str]:
    """Every path, and what it points to where it is a link (``/lib64`` -> ``/usr/lib64``)."""
    found: list[str] = []
    for path in paths:
        if path not in found:
            found.append(path)
        real = os.path.realpath(path)
        if real != path and real not in found and not any(real.startswith(item + "/") for item in found):
            found.append(real)
    return found

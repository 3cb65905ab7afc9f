"""Where model text is executed: a child process without network, secrets, write access or privileges, under limits.

Two builders give the same: ``namespaces``, the kernel's own calls (Linux with user namespaces, or root), and
``bubblewrap``, for machines that allow namespaces to that program alone. ``auto`` takes the first that works. Where
neither does the evaluation refuses to run, unless ``sandbox=off`` is given explicitly: then only the limits, the empty
environment and the throw-away folder remain.
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
from typing import Any

from harness.errors import UserError, nearest
from harness.evaluation import sandbox_launch
from harness.evaluation.sandbox_launch import DEVICES, NOBODY

BUILDERS = ("namespaces", "bubblewrap")
OFF, AUTO = "off", "auto"
ALONE = "SANDBOX_ALONE"
"""Set for a program that shares its process namespace with nothing but what it started, and may end all of it."""
MODES = (AUTO, *BUILDERS, OFF)
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
_BUBBLEWRAP = "bwrap"
_PROBE_SECONDS = 60
_REFUSAL = (
    "model text would be executed, and this machine has no sandbox for it ({}): allow unprivileged user namespaces or "
    "install bubblewrap, or give sandbox=off if the machine itself is disposable"
)
_LAST_WORDS = 1 << 16
_FAREWELL_SECONDS = 1.0
"""For a program that ends by itself when its input does."""


@dataclass(frozen=True)
class Limits:
    """Bytes of address space (each process), processes, bytes and files on the writable folders, bytes of one file,
    open files, processor seconds (each process)."""

    memory: int = 1 << 30
    processes: int = 16
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
        if self.mode not in (*BUILDERS, OFF):
            raise UserError(f"sandbox={self.mode} is unknown: {nearest(self.mode, MODES)}")

    @classmethod
    def of(cls, mode: str) -> Sandbox:
        """The sandbox of a mode; of ``auto`` the first that can be built here. UserError when none can."""
        if mode != AUTO:
            return cls(mode)
        problems = {}
        for builder in BUILDERS:
            sandbox = cls(builder)
            problem = sandbox.problem()
            if problem is None:
                return sandbox
            problems[builder] = problem
        reasons = "; ".join(f"{builder}: {problem}" for builder, problem in problems.items())
        raise UserError(_REFUSAL.format(reasons))

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
        inside = folder if self.mode == OFF else "/sandbox"
        settings: dict[str, Any] = {
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
                **({} if self.mode == OFF else {ALONE: "1"}),
                **(environment or {}),
            },
        }
        script = str(Path(sandbox_launch.__file__).resolve())
        if self.mode == "bubblewrap":
            settings["command"] = _bubblewrapped(settings, script)
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
        if self.mode == OFF:
            return
        reason = self.problem()
        if reason:
            raise UserError(_REFUSAL.format(reason))

    def problem(self) -> str | None:
        """Why the sandbox cannot be built here, or None."""
        if sys.platform != "linux":
            return f"{sys.platform} has no namespaces"
        if self.mode == "bubblewrap" and not shutil.which(_BUBBLEWRAP):
            return f"{_BUBBLEWRAP} is not installed"
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

    def end(self) -> str:
        """End the program -> what it wrote on standard error last."""
        if self.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.popen.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(_FAREWELL_SECONDS)
        if self.popen.poll() is None:
            self.popen.kill()  # the launcher's children die with it, the PID namespace with them
        self.popen.wait()
        if self.popen.stderr is None or self.popen.stderr.closed:
            return ""
        os.set_blocking(self.popen.stderr.fileno(), False)
        with contextlib.suppress(OSError):
            return (os.read(self.popen.stderr.fileno(), _LAST_WORDS) or b"").decode(errors="replace")
        return ""

    def close(self) -> None:
        self.end()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _bubblewrapped(settings: dict[str, Any], script: str) -> list[str]:
    """The command that has bubblewrap build the sandbox; the launcher in it sets the limits and becomes the program."""
    base = Path(sys.executable).resolve()
    prefix = str(base.parent.parent)
    shown = [*settings["readable"], *([] if prefix.startswith("/usr") else [prefix]), script]
    # Root needs no user namespace: the launcher becomes nobody and so gives up the two capabilities it needs for that.
    privileges = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    user = privileges if os.geteuid() == 0 else ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
    program = shutil.which(_BUBBLEWRAP) or _BUBBLEWRAP
    command = [program, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--die-with-parent", "--as-pid-1", "--clearenv", "--cap-drop", "ALL", *user]
    for name in ("/sandbox", "/tmp"):
        command += ["--perms", "1777", "--size", str(settings["limits"]["disk"]), "--tmpfs", name]
    parents = {str(parent) for path in shown for parent in Path(path).parents}
    for path in sorted(parents - {"/", "/tmp", *shown}, key=len):
        command += ["--perms", "0755", "--dir", path]
    for path in sorted(shown, key=len):
        link = os.path.islink(path)
        command += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    command += ["--perms", "0755", "--dir", "/dev"]
    for name in DEVICES:
        command += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    command += ["--remount-ro", "/", "--chdir", "/sandbox", "--"]
    return [*command, str(base), "-I", "-S", script, json.dumps({**settings, "mode": "inside"})]


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

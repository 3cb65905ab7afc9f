"""The life of one attempt: start verl in a process of its own, store what it reports, say how it ended."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.config import RunConfig
from harness.engines.verl import child, compatibility, mapping, storage
from harness.engines.verl.arguments import command_line
from harness.engines.verl.naming import FAILED_GROUP
from harness.errors import UserError
from harness.store import Run
from harness.store.files import make_folder

POLL_SECONDS = 0.2
GRACE_SECONDS, REST_SECONDS = 20.0, 10.0
"""How long a child may take to shut Ray down after it was told to, and Ray's processes to follow it."""


class TrainingFailedError(UserError):
    """verl ended before the run was done; the message names the cause, the remedy and the log."""


def train(config: RunConfig, run: Run, should_stop: Callable[[], bool]) -> None:
    """See :func:`harness.engines.verl.train`."""
    require_verl()
    mapping.check(config)
    step = storage.repair(run.checkpoints)
    storage.require_world_size(run.checkpoints, mapping.world_size(config))
    storage.require_space(run.checkpoints)
    steps = _Steps(run)
    steps.adopt_left_over(step)
    from harness.engines.verl.data import prepare

    attempt = len(run.manifest.read()["attempts"])
    values = mapping.overrides(config, prepare(config, run.path), run.path, attempt)
    run.record("verl", compatibility.installed_version())
    write_plan(config, run.path, values)
    _Child(config, run, attempt, steps).run(should_stop)


def require_verl() -> None:
    """UserError when verl, or what its trainer needs, is not installed."""
    for name in ("verl", "ray", "transfer_queue", "tensordict"):
        if importlib.util.find_spec(name) is None:
            raise UserError(
                f"engine=verl needs the package {name}, which is not installed: pip install -e '.[verl]' in a virtual "
                "environment of its own (docs/verl.md)"
            )


def write_plan(config: RunConfig, run: Path, values: dict[str, Any]) -> Path:
    """Write the overrides and the command that is equivalent to what the engine starts; returns the command's file."""
    folder = run / "verl"
    make_folder(folder)
    arguments = command_line(values)
    (folder / child.ARGUMENTS).write_text("\n".join(arguments) + "\n", encoding="utf-8")
    path = folder / "command.sh"
    path.write_text(command_text(config, arguments), encoding="utf-8")
    return path


def command_text(config: RunConfig, arguments: list[str]) -> str:
    """The shell command with its environment, one argument a line."""
    settings = [f"export {key}={shlex.quote(value)}" for key, value in mapping.environment(config).items()]
    lines = ["python -m verl.trainer.main_ppo", *(f"  {shlex.quote(argument)}" for argument in arguments)]
    return "\n".join([*settings, " \\\n".join(lines)]) + "\n"


class _Steps:
    """Takes the steps that the trainer hands over into the run's metrics."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.path = run.path / storage.STEPS_FILE
        self._offset = 0
        self._generated = 0

    def adopt_left_over(self, resumed: int) -> None:
        """Steps that a killed attempt handed over and nobody stored: those the checkpoint covers are stored now."""
        stored = self.run.metrics.last_step()
        for entry in self._read():
            if stored < entry["step"] <= resumed:
                self._store(entry)
        self._generated = self._generated_until(resumed)
        self.path.unlink(missing_ok=True)
        self._offset = 0

    def take(self) -> None:
        """Store what is new."""
        for entry in self._read():
            self._store(entry)

    def _store(self, entry: dict[str, Any]) -> None:
        values = dict(entry["values"])
        if self._generated == 0 and entry["step"] > 1:
            self._generated = self._generated_until(entry["step"] - 1)
        self._generated += values.pop("responses_in_step")
        self.run.metrics.append(entry["step"], {**values, "responses_generated": self._generated})

    def _generated_until(self, step: int) -> int:
        earlier = [row for row in self.run.metrics.read().rows if row["step"] <= step]
        return int(earlier[-1].get("responses_generated") or 0) if earlier else 0

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self.path, "rb") as file:
                file.seek(self._offset)
                content = file.read()
        except FileNotFoundError:
            return
        end = content.rfind(b"\n") + 1
        self._offset += end
        for line in content[:end].splitlines():
            yield json.loads(line)


class _Child:
    """One process of verl's."""

    def __init__(self, config: RunConfig, run: Run, attempt: int, steps: _Steps) -> None:
        self.config, self.run_, self.steps = config, run, steps
        self.folder = run.path / "verl"
        self.log = self.folder / f"attempt_{attempt}.log"
        self.error = self.folder / child.ERROR

    def run(self, should_stop: Callable[[], bool]) -> None:
        stop_file = self.run_.path / storage.STOP_FILE
        stop_file.unlink(missing_ok=True)
        self.error.unlink(missing_ok=True)
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "harness.engines.verl.child", str(self.folder), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, **mapping.environment(self.config)},
                start_new_session=True,
            )
        try:
            while process.poll() is None:
                self.steps.take()
                if should_stop() and not stop_file.exists():
                    stop_file.touch()
                time.sleep(POLL_SECONDS)
            self.steps.take()
        finally:
            _end(process)
            stop_file.unlink(missing_ok=True)
        self._judge(process.returncode)

    def _judge(self, code: int) -> None:
        """Return when the run ended as it should, raise with the cause otherwise."""
        if code in (0, child.STOPPED):
            return
        storage.repair(self.run_.checkpoints)  # a half-written checkpoint may be what fills the disk
        cause = child.DISK_FULL if code == child.FULL else child.read_error(self.error)
        if cause is not None and FAILED_GROUP in cause:
            cause += _group_error(self.log)
        if cause is None and child.NO_GCS in _text(self.log):
            cause = child.RAY_ENDED
        if cause is None:
            cause = f"verl's process was killed by signal {-code}" if code < 0 else f"verl ended with exit code {code}"
            cause += f"; was it killed for memory? {child.AGAIN.capitalize()}"
        raise TrainingFailedError(f"{cause} (log: {self.log})")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have the child gone, and all processes of its session with it: a Ray that was killed leaves some."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    limit = time.monotonic() + REST_SECONDS
    while rest := _members(process.pid):
        if time.monotonic() > limit:
            for pid in rest:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            return
        time.sleep(POLL_SECONDS)


def _members(session: int) -> list[int]:
    """Living processes of a session (Linux; none elsewhere)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(of) == session and state != "Z":
            found.append(int(entry.name))
    return found


_RAISED = re.compile(r"\) ((?:\w+\.)*\w*(?:Error|Exception)\b.*)")
_COLOUR = re.compile(r"\x1b\[\d*m")


def _group_error(log: Path) -> str:
    """What the first failed group raised, from the log: verl passes on only that it failed."""
    text = _COLOUR.sub("", _text(log))
    found = _RAISED.findall(text.partition(FAILED_GROUP)[2].partition(FAILED_GROUP)[0])
    return f". The first of them: {found[-1][:500]}" if found else ""


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

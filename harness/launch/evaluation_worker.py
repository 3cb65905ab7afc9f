"""Evaluates checkpoints of one run: ``python -m harness.launch.evaluation_worker RUN_DIR BENCHMARK STEPS [KEY=VALUE]``.

Each step is a ``python -m harness evaluate`` of its own, so that nothing of one checkpoint reaches the next; what
became of it is noted beside the results. A step that fails does not stop the others. SIGTERM or SIGINT end it at once:
an evaluation goes on from the questions that are answered.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from harness.errors import UserError
from harness.evaluation.benchmarks import result_name
from harness.evaluation.options import parse, words_of
from harness.launch.wanted_evaluations import LOG, Wanted, attempts, folder_of, note_attempt, stored_steps
from harness.launch.worker import BUSY, FAILED, FINISHED, INTERRUPTED, MISTAKE, THREAD_VARIABLES
from harness.store import LockBusyError, LockLostError, Run
from harness.store.files import explained, make_folder
from harness.store.lock import RunLock

_POLL_SECONDS = 0.1
_END_SECONDS = 20.0
_INCOMPLETE = "the result is incomplete; see its cells for what is missing"


class Stopping:
    """Whether to end: a signal came, or the launcher is gone."""

    def __init__(self, parent: int | None) -> None:
        self._parent = parent
        self._asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def __call__(self) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self._asked = True
        return self._asked

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._asked = True


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.launch.evaluation_worker", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of the run")
    parser.add_argument("benchmark")
    parser.add_argument("steps", help="of the checkpoints, e.g. 0,50,100")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="as for `python -m harness evaluate`")
    parser.add_argument("--parent", type=int, help="end when the process with this pid is gone")
    parser.add_argument("--since", type=float, default=0.0, help="do not repeat what failed after this moment (epoch)")
    arguments = parser.parse_args(argv)
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    stopping = Stopping(arguments.parent)
    try:
        options = parse([f"benchmark={arguments.benchmark}", "run=.", *arguments.settings])
        given = dict(word.split("=", 1) for word in arguments.settings)
        steps = tuple(int(step) for step in arguments.steps.split(","))
        wanted = Wanted(result_name(arguments.benchmark, options.limit), arguments.benchmark, steps, given)
        run = Run(arguments.run_dir.resolve())
        make_folder(folder_of(run, wanted.name))
        with RunLock(folder_of(run, wanted.name), "evaluation"):
            return evaluate_steps(run, wanted, stopping, since=arguments.since)
    except (LockBusyError, LockLostError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BUSY
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return MISTAKE


def evaluate_steps(run: Run, wanted: Wanted, stopping: Stopping, *, since: float) -> int:
    """Evaluate what is not stored, in order of the steps; returns the exit code."""
    stored, _ = stored_steps(run, wanted)
    failures = [item for item in attempts(run, wanted.name) if item["outcome"] == "failed" and item["time"] > since]
    tried = {item["step"] for item in failures} if since else set()
    failed = not tried.isdisjoint(wanted.steps)
    for step in wanted.steps:
        if step in stored or step in tried:
            continue
        outcome = "interrupted" if stopping() else _evaluate(run, wanted, step, stopping)
        if outcome == "interrupted":
            return INTERRUPTED
        failed = failed or outcome == "failed"
    return FAILED if failed else FINISHED


def _evaluate(run: Run, wanted: Wanted, step: int, stopping: Stopping) -> str:
    words = [f"benchmark={wanted.benchmark}", f"run={run.path}", f"step={step}", *words_of(wanted.options)]
    command = [sys.executable, "-u", "-m", "harness.launch.evaluation_step", str(os.getpid()), *words]
    log = folder_of(run, wanted.name) / LOG
    started = time.monotonic()
    with explained(log), open(log, "ab") as file:
        file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} evaluate {' '.join(words)}\n".encode())
        file.flush()
        place = file.tell()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)
        stopped = _attend(process, stopping)
    seconds, code = time.monotonic() - started, process.returncode
    if stopped:
        note_attempt(run, wanted.name, step, "interrupted", seconds, None)
        return "interrupted"
    if code == 0:
        note_attempt(run, wanted.name, step, "stored", seconds, None)
        return "stored"
    error = _INCOMPLETE if code == 1 and run.evaluations.path(wanted.name, step).exists() else _last_words(log, place)
    note_attempt(run, wanted.name, step, "failed", seconds, error or f"ended with exit code {code}")
    return "failed"


def _attend(process: subprocess.Popen[bytes], stopping: Stopping) -> bool:
    """Wait for the end; True when it was ended because of ``stopping``."""
    while process.poll() is None:
        if stopping():
            for number in (signal.SIGTERM, signal.SIGKILL):
                _signal(process, number)
                try:
                    process.wait(_END_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    continue
            _signal(process, signal.SIGKILL)  # whatever it started and left
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _last_words(log: Path, place: int) -> str:
    """What the command said last, without its prefix."""
    with open(log, "rb") as file:
        file.seek(place)
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].removeprefix("error: ")[:1000] if lines else ""


if __name__ == "__main__":
    sys.exit(main())

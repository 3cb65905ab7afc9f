"""Runs a matrix on this machine: worker processes, one per core, one thread each.

Done runs are left alone, interrupted ones continue, failed ones wait for ``retry=true``. A run that fails does not
stop the others. Ctrl-C asks every worker to stop after its step; a second one ends them at once. If this process is
killed its workers notice and stop by themselves. Nothing here knows how to train, and no engine is imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from rich.console import Console

from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.launch.closing import print_closing
from harness.launch.plan_matrix import print_plan
from harness.launch.progress import Progress
from harness.launch.selection import Planned, counts, plan
from harness.launch.worker import BUSY, THREAD_VARIABLES
from harness.store import Run, RunStore
from harness.store.files import explained
from harness.store.provenance import CODE_ROOT

OPTIONS = ("workers",)
OK, FAILED, ELSEWHERE, INTERRUPTED = 0, 1, 75, 130
_POLL_SECONDS = 0.1
_FILE_WIDTH = 140
_SPARE_BYTES = 65536


@dataclass
class Outcome:
    """Run ids by what became of them. ``failed``: also killed workers, damaged runs and failures that wait for a
    retry; ``elsewhere``: in a queue or in the hands of another process."""

    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def exit_code(self) -> int:
        """0 all done, 1 some failed, 75 some are under way elsewhere (the rest is done), 130 interrupted."""
        if self.stopped:
            return INTERRUPTED
        if self.failed or self.interrupted:
            return FAILED
        return ELSEWHERE if self.elsewhere else OK


def dry_run(runs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any]) -> int:
    """Print what :func:`launch` would do, and its cost."""
    print_plan(runs, store, workers=_workers(options))
    return OK


def launch(runs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any], retry: bool) -> int:
    """Bring the runs to their end as far as possible; returns the exit code (see :class:`Outcome`)."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=_FILE_WIDTH)
    outcome = run_matrix(runs, store=store, workers=_workers(options), retry=retry, console=console)
    if outcome.stopped:
        console.print("stopped; every run can be resumed: the same command continues where they are")
    else:
        print_closing(runs, store, console)
    return outcome.exit_code


def run_matrix(
    configs: Sequence[RunConfig], *, store: RunStore, workers: int, retry: bool, console: Console
) -> Outcome:
    """As :func:`launch`, without the closing table."""
    planned = plan(configs, store, retry=retry)
    console.print(f"{len(planned)} runs in {store.root}: {counts(planned)}", soft_wrap=True)
    outcome = Outcome()
    for item in planned:
        if not item.starts:
            _leave(item, outcome, console)
    starting = [item for item in planned if item.starts]
    if not starting:
        return outcome
    runs = []
    for item in starting:
        run = store.create(item.config)
        run.adopt(item.config)
        runs.append(run)
    with _Signals() as signals:
        if not _prepare(runs, signals, outcome):
            return outcome
        with Progress([item.config for item in starting], console, workers=workers) as progress:
            _Pool(progress, outcome, signals, workers).run(runs)
    return outcome


def _leave(item: Planned, outcome: Outcome, console: Console) -> None:
    """A run that is not started: say why, unless it is done."""
    state = item.status.state
    if state == "done":
        outcome.done.append(item.run_id)
        return
    remedy = "; retry=true starts it again" if state == "failed" else ""
    console.print(f"{state}: {item.run_id}: {item.status.reason}{remedy}", soft_wrap=True, markup=False)
    (outcome.elsewhere if state in ("running", "queued") else outcome.failed).append(item.run_id)


class _Signals:
    """Counts requests to stop (Ctrl-C, SIGTERM, a closed terminal) instead of dying of them."""

    _NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self) -> None:
        self.received = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number in self._NUMBERS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
                self._before[number] = signal.signal(number, self._count)
        return self

    def __exit__(self, *unused: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _count(self, number: int, frame: FrameType | None) -> None:
        self.received += 1


class _Pool:
    def __init__(self, progress: Progress, outcome: Outcome, signals: _Signals, workers: int) -> None:
        self._progress = progress
        self._outcome = outcome
        self._signals = signals
        self._workers = workers
        self._processes: dict[str, tuple[Run, subprocess.Popen[bytes]]] = {}
        self._sent = 0

    def run(self, runs: Sequence[Run]) -> None:
        waiting = list(reversed(runs))
        try:
            while self._processes or (waiting and not self._signals.received):
                while waiting and len(self._processes) < self._workers and not self._signals.received:
                    self._start(waiting.pop())
                self._forward()
                self._collect()
                self._progress.tick()
                time.sleep(_POLL_SECONDS)
        finally:
            self._end_all()
        if self._signals.received:
            self._outcome.stopped = True
            self._outcome.interrupted.extend(run.run_id for run in waiting)

    def _start(self, run: Run) -> None:
        with explained(run.log_path), open(run.log_path, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "harness.launch.worker", str(run.path.resolve()), "--parent", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(dict.fromkeys(THREAD_VARIABLES, "1")),
                start_new_session=True,
            )
        self._processes[run.run_id] = (run, process)
        self._progress.started(run)

    def _forward(self) -> None:
        """Hand a request to stop on to the workers: the first one politely, the second one not."""
        if self._signals.received <= self._sent or self._sent >= 2:
            return
        self._sent = min(self._signals.received, 2)
        if self._sent == 1:
            self._progress.say("stopping after the current step (again: at once) ...", "yellow")
        for _, process in self._processes.values():
            process.send_signal(signal.SIGTERM if self._sent == 1 else signal.SIGKILL)

    def _collect(self) -> None:
        for name, (run, process) in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[name]
            self._ended(run, code)

    def _ended(self, run: Run, code: int) -> None:
        status = run.status()
        if status.state == "done":
            self._outcome.done.append(run.run_id)
            self._progress.ended(run, "done", "")
        elif code == BUSY:
            self._outcome.elsewhere.append(run.run_id)
            self._progress.ended(run, "running", f"elsewhere, {status.reason}")
        elif self._signals.received and status.state in ("new", "interrupted"):
            self._outcome.interrupted.append(run.run_id)
            self._progress.ended(run, "interrupted", f"step {status.step} of {status.steps}")
        elif status.state == "interrupted":
            self._outcome.interrupted.append(run.run_id)
            reason = f"{_death(code)}; {status.reason}{_disk(run)}; the same command continues it"
            self._progress.ended(run, "interrupted", reason)
        else:
            reason = status.reason if status.state in ("failed", "damaged") else _death(code)
            self._outcome.failed.append(run.run_id)
            self._progress.ended(run, "failed", _with_last_line(run, reason, status.state) + _disk(run))

    def _end_all(self) -> None:
        """Only on an unexpected error here: no worker outlives its pool."""
        for _, process in self._processes.values():
            process.terminate()
        for _, process in self._processes.values():
            process.wait()


def _prepare(runs: Sequence[Run], signals: _Signals, outcome: Outcome) -> bool:
    """Build what the runs share, with progress on this terminal. False: interrupted. Raises UserError on failure."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.launch.prepare"],
        stdin=subprocess.PIPE,
        env=_environment({}),
        start_new_session=True,
        text=True,
    )
    assert process.stdin is not None
    try:
        process.stdin.write("".join(f"{run.path.resolve()}\n" for run in runs))
        process.stdin.close()
    except BrokenPipeError:
        pass
    asked = 0
    while process.poll() is None:
        if signals.received > asked:
            asked = signals.received
            process.send_signal(signal.SIGINT if asked == 1 else signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    if signals.received:
        outcome.stopped = True
        outcome.interrupted.extend(run.run_id for run in runs)
        return False
    if process.returncode:
        raise UserError(f"preparing the runs failed ({_death(process.returncode)}); see above; nothing was started")
    return True


def _death(code: int) -> str:
    if code >= 0:
        return f"the process ended with exit code {code}"
    hint = ", perhaps for lack of memory" if -code == signal.SIGKILL else ""
    return f"the process was killed by signal {-code} ({signal.Signals(-code).name}{hint})"


def _with_last_line(run: Run, reason: str, state: str) -> str:
    """A process that died before it could say anything left its last words in the log."""
    lines = [line for line in run.last_log_lines(5) if line.strip()]
    return f"{reason}: {lines[-1]}" if state == "new" and lines else reason


def _disk(run: Run) -> str:
    """A worker cannot say so in its log when the disk is full."""
    disk = os.statvfs(run.path)
    return (
        f"; no space left on the disk of {run.path}, free some" if disk.f_bavail * disk.f_frsize < _SPARE_BYTES else ""
    )


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    paths = [str(CODE_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, **extra, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def _workers(options: Mapping[str, Any]) -> int:
    for key in options:
        if key not in OPTIONS:
            raise UserError(f"unknown key hydra.launcher.{key}: {nearest(key, OPTIONS)}")
    workers = options.get("workers")
    if workers is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise UserError(f"hydra.launcher.workers={workers} must be a whole number of at least 1")
    return workers

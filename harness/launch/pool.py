"""Runs a matrix on this machine: worker processes, one per core, one thread each.

Done runs are left alone, interrupted ones continue, failed ones wait for ``retry=true``. A run that fails does not
stop the others. The evaluations that a run asks for follow its training, in a worker of their own. Ctrl-C asks every
worker to stop after its step; a second one ends them at once. If this process is killed its workers notice and stop by
themselves. Nothing here knows how to train, and no engine is imported.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from rich.console import Console

from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.launch.closing import print_closing
from harness.launch.evaluation_tasks import EvaluationTask, describe, left_to_do
from harness.launch.plan_matrix import print_plan
from harness.launch.progress import Progress
from harness.launch.selection import Planned, counts, plan
from harness.launch.wanted_evaluations import ask, stored_steps
from harness.launch.worker import BUSY, THREAD_VARIABLES
from harness.store import Run, RunStore
from harness.store.files import explained, make_folder
from harness.store.provenance import CODE_ROOT

OPTIONS = ("workers",)
OK, FAILED, ELSEWHERE, INTERRUPTED = 0, 1, 75, 130
_POLL_SECONDS = 0.1
_FILE_WIDTH = 140
_SPARE_BYTES = 65536


@dataclass
class Outcome:
    """Run ids by what became of them. ``failed``: also killed workers, damaged runs and failures that wait for a
    retry; ``elsewhere``: in a queue or in the hands of another process. An evaluation has a name of its own."""

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
    runs = []
    for item in starting:
        run = store.create(item.config)
        run.adopt(item.config)
        ask(run, item.config)
        runs.append(run)
    finished = [item for item in planned if item.status.state == "done"]
    evaluations: list[EvaluationTask] = []
    for item in finished:
        evaluations += _evaluations(store.create(item.config), item.config, retry, outcome, console)
    if evaluations:
        console.print(f"to do for runs that are done: {describe(evaluations)}", soft_wrap=True, markup=False)
    if not runs and not evaluations:
        return outcome
    with _Signals() as signals:
        if not _prepare([*runs, *{task.run.run_id: task.run for task in evaluations}.values()], signals, outcome):
            return outcome
        by_name = {item.run_id: item.config for item in (*finished, *starting)}
        with Progress(list(by_name.values()), console, workers=workers, waiting=len(runs)) as progress:

            def after(run: Run) -> list[EvaluationTask]:
                return _evaluations(run, by_name[run.run_id], retry, outcome, console)

            _Pool(progress, outcome, signals, workers, after).run([*evaluations, *runs])
    return outcome


def _evaluations(run: Run, config: RunConfig, retry: bool, outcome: Outcome, console: Console) -> list[EvaluationTask]:
    """What is to be evaluated of a run that is done."""
    left = left_to_do(run, config, retry=retry)
    for task, error in left.failed:
        steps = ", ".join(map(str, task.wanted.steps))
        console.print(
            f"failed: {task.name}: step {steps}: {error}; retry=true evaluates it again", soft_wrap=True, markup=False
        )
        outcome.failed.append(task.name)
    return left.tasks


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
    """Works off trainings and evaluations; ``after(run)``: what is evaluated once a training is done."""

    def __init__(
        self,
        progress: Progress,
        outcome: Outcome,
        signals: _Signals,
        workers: int,
        after: Callable[[Run], Sequence[EvaluationTask]],
    ) -> None:
        self._progress = progress
        self._outcome = outcome
        self._signals = signals
        self._workers = workers
        self._after = after
        self._waiting: list[Run | EvaluationTask] = []
        self._processes: dict[str, tuple[Run | EvaluationTask, subprocess.Popen[bytes]]] = {}
        self._sent = 0

    def run(self, work: Sequence[Run | EvaluationTask]) -> None:
        self._waiting = list(reversed(work))
        try:
            while self._processes or (self._waiting and not self._signals.received):
                while self._waiting and len(self._processes) < self._workers and not self._signals.received:
                    self._start(self._waiting.pop())
                self._forward()
                self._collect()
                self._progress.tick()
                time.sleep(_POLL_SECONDS)
        finally:
            self._end_all()
        if self._signals.received:
            self._outcome.stopped = True
            self._outcome.interrupted.extend(_name(item) for item in self._waiting)

    def _start(self, item: Run | EvaluationTask) -> None:
        make_folder(item.log_path.parent)
        with explained(item.log_path), open(item.log_path, "ab") as log:
            process = subprocess.Popen(
                _command(item),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(dict.fromkeys(THREAD_VARIABLES, "1")),
                start_new_session=True,
            )
        self._processes[_name(item)] = (item, process)
        if isinstance(item, Run):
            self._progress.started(item)
        else:
            self._progress.evaluating(item)

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
        for name, (item, process) in list(self._processes.items()):
            code = process.poll()
            if code is None:
                continue
            del self._processes[name]
            if isinstance(item, Run):
                self._ended(item, code)
            else:
                self._evaluated(item, code)

    def _evaluated(self, task: EvaluationTask, code: int) -> None:
        stored, failed = stored_steps(task.run, task.wanted)
        if len(stored) == len(task.wanted.steps):
            self._outcome.done.append(task.name)
            self._progress.evaluated(task, "done", "")
        elif code == BUSY:
            self._outcome.elsewhere.append(task.name)
            self._progress.evaluated(task, "running", "elsewhere")
        elif failed:
            self._outcome.failed.append(task.name)
            step, attempt = next(iter(failed.items()))
            self._progress.evaluated(task, "failed", f"step {step}: {attempt['error']}{_disk(task.run)}")
        else:
            self._outcome.interrupted.append(task.name)
            reason = "" if self._signals.received else f"{_death(code)}{_disk(task.run)}; "
            reason += f"{len(stored)} of {len(task.wanted.steps)} checkpoints done; the same command continues it"
            self._progress.evaluated(task, "interrupted", reason)

    def _ended(self, run: Run, code: int) -> None:
        status = run.status()
        if status.state == "done":
            self._outcome.done.append(run.run_id)
            self._progress.ended(run, "done", "")
            self._waiting.extend(reversed(self._after(run)))
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


def _name(item: Run | EvaluationTask) -> str:
    return item.run_id if isinstance(item, Run) else item.name


def _command(item: Run | EvaluationTask) -> list[str]:
    if isinstance(item, EvaluationTask):
        return item.command()
    worker = [sys.executable, "-m", "harness.launch.worker"]
    return [*worker, str(item.path.resolve()), "--parent", str(os.getpid())]


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

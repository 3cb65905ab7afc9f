"""Submits what is still missing of a matrix, under one lock per store, and returns.

Who submits first holds the lock; who comes second waits for it, then finds everything in the queue. What is in the
queue is read from SLURM and from what was written before each sbatch, never from what was written after it.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.selection import Planned, counts, plan
from harness.launch.slurm import chains
from harness.launch.slurm.executor import ArrayExecutor
from harness.launch.slurm.options import Resources, SlurmOptions, read_options, resources
from harness.launch.slurm.preparation import prepare
from harness.launch.slurm.queue import available, max_array_size
from harness.launch.slurm.snapshot import snapshot
from harness.launch.slurm.states import placed
from harness.launch.slurm.submissions import FOLDER, Submission, Task
from harness.pocket.cache import VARIABLE, cache_root
from harness.store import LockBusyError, RunStore
from harness.store.files import make_folder
from harness.store.lock import RunLock
from harness.store.status_command import common_prefix

OK, FAILED = 0, 1
_DEFAULT_ARRAY = 1001
_LOCK_POLL_SECONDS = 0.5
_LISTED = 10


@dataclass(frozen=True)
class Batch:
    """Tasks that become one call of sbatch."""

    tasks: dict[int, Task]
    resources: Resources
    dependency: str | None = None


class Submitter:
    """Everything that the submissions of one launch have in common."""

    def __init__(self, root: Path, options: SlurmOptions, *, code: Path | None, folder: Path | None = None) -> None:
        self.root = root
        self.options = options
        self._code = code
        self._folder = folder
        self.calls = 0

    def prepare(self, batch: Batch) -> ArrayExecutor:
        settings = {
            "nodes": batch.resources.nodes,
            "gpus_per_node": batch.resources.gpus_per_node,
            "signal_seconds": self.options.signal_seconds,
            "mem_gb": self.options.mem_gb,
            "array_parallelism": self.options.array_parallelism,
        }
        submission = Submission.create(self.root, batch.tasks, settings=settings, folder=self._folder)
        executor = ArrayExecutor(submission)
        executor.configure(
            self.options,
            batch.resources,
            name=_name([task.job_name for task in batch.tasks.values()]),
            code=self._code,
            environment={VARIABLE: str(cache_root())},
            dependency=batch.dependency,
        )
        return executor

    def submit(self, batch: Batch) -> Submission:
        """One call of sbatch. Raises :class:`UserError` when it is refused."""
        executor = self.prepare(batch)
        self.calls += 1
        executor.call_sbatch()
        return executor.submission


def launch(configs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any], retry: bool) -> int:
    console = Console(highlight=False)
    settings = read_options(options)
    if not available():
        raise UserError("SLURM is not installed here (no squeue): submit from a login node, or use hydra/launcher=pool")
    store = RunStore(store.root.absolute())
    with submission_lock(store.root, console):
        placed(store.root)  # SLURM must answer before anything is decided
        planned = plan(configs, store, retry=retry)
        console.print(f"{len(planned)} runs in {store.root}: {counts(planned)}", soft_wrap=True)
        _say_left(planned, console)
        starting = [item for item in planned if item.starts]
        submitter: Submitter | None = None
        if starting:
            _create(starting, store)
            if settings.prepare:
                prepare([store.root / item.run_id for item in starting])
        if starting or settings.evaluate or settings.collect:
            submitter = Submitter(store.root, settings, code=snapshot(store.root, require_clean=settings.require_clean))
        if starting and submitter is not None:
            for batch in _batches(starting, settings, max_array_size()):
                _say_submitted(submitter.submit(batch), console)
        if submitter is not None:
            chains.submit(configs, store, submitter, console, say=_say_submitted)
    if starting:
        console.print(
            f"`python -m harness status --runs {store.root}` shows them; the same command submits what is missing",
            soft_wrap=True,
        )
    return FAILED if any(item.status.state in ("failed", "damaged") and not item.starts for item in planned) else OK


def dry_run(configs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any]) -> int:
    """Scripts go to ``<runs>/.slurm/dry_run``; nothing of them is ever read again."""
    console = Console(highlight=False)
    settings = read_options(options)
    store = RunStore(store.root.absolute())
    planned = plan(configs, store, retry=False)
    for item in planned:
        console.print(f"{item.status.state:<12}{item.run_id}", soft_wrap=True, markup=False)
    console.print(f"{len(planned)} runs in {store.root}: {counts(planned)}", soft_wrap=True)
    folder = store.root / FOLDER / "dry_run"
    submitter = Submitter(store.root, settings, code=store.root / FOLDER / "code" / "COMMIT", folder=folder)
    starting = [item for item in planned if item.starts]
    for batch in _batches(starting, settings, max_array_size() if available() else _DEFAULT_ARRAY):
        executor = submitter.prepare(batch)
        path = executor.submission.folder / "script.sh"
        path.write_text(executor.script(), encoding="utf-8")
        console.print(f"\n{path}  ({len(batch.tasks)} runs)", soft_wrap=True, markup=False)
        console.print(path.read_text(encoding="utf-8"), soft_wrap=True, markup=False)
    return OK


@contextlib.contextmanager
def submission_lock(root: Path, console: Console) -> Iterator[None]:
    """One submitter per store at a time; a dead one's lock is taken over."""
    make_folder(root / FOLDER)
    lock = RunLock(root / FOLDER, "submission")
    said = False
    while True:
        try:
            lock.acquire()
            break
        except LockBusyError as error:
            if not said:
                console.print(f"waiting: {error}", soft_wrap=True, markup=False)
                said = True
            time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _batches(starting: Sequence[Planned], options: SlurmOptions, max_array: int) -> list[Batch]:
    """Runs of equal resources together, at most ``max_array`` in an array."""
    groups: dict[Resources, list[Planned]] = defaultdict(list)
    for item in starting:
        groups[resources(options, item.config)].append(item)
    batches = []
    for wanted, members in groups.items():
        for first in range(0, len(members), max_array):
            part = members[first : first + max_array]
            batches.append(Batch({index: Task("train", item.run_id) for index, item in enumerate(part)}, wanted))
    return batches


def _create(starting: Sequence[Planned], store: RunStore) -> None:
    """Each run's resolved configuration is stored now: what changes in conf/ later never reaches its job."""
    for item in starting:
        new = not (store.root / item.run_id).exists()
        run = store.create(item.config)
        if not new:
            run.adopt(item.config)


def _name(names: Sequence[str]) -> str:
    """A job's name: the run's, or what the runs of an array have in common."""
    return names[0] if len(names) == 1 else common_prefix(names).rstrip("-") or "dara"


def _say_left(planned: Sequence[Planned], console: Console) -> None:
    left = [item for item in planned if not item.starts and item.status.state != "done"]
    for item in left[:_LISTED]:
        remedy = "; retry=true submits it again" if item.status.state == "failed" else ""
        console.print(f"{item.status.state}: {item.run_id}: {item.status.reason}{remedy}", soft_wrap=True, markup=False)
    if len(left) > _LISTED:
        console.print(f"... and {len(left) - _LISTED} more that are not submitted now")


def _say_submitted(submission: Submission, console: Console) -> None:
    tasks = list(submission.tasks.values())
    what = f"job {submission.job_id}: {tasks[0].job_name}"
    if len(tasks) > 1:
        throttle = min(submission.settings["array_parallelism"], len(tasks))
        noun = "runs" if tasks[0].kind == "train" else "evaluations"
        what = f"array {submission.job_id}: {len(tasks)} {noun}, {throttle} at a time"
    console.print(f"submitted {what}", soft_wrap=True, markup=False)

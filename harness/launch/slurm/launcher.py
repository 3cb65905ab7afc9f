"""Submits what is still missing of a matrix, under one lock per store, and returns.

Who submits first holds the lock; who comes second waits for it, then finds everything in the queue. What is in the
queue is read from SLURM and from what was written before each sbatch, never from what was written after it.
"""

from __future__ import annotations

import contextlib
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.evaluation_tasks import left_to_do
from harness.launch.selection import Planned, counts, plan
from harness.launch.slurm import chains
from harness.launch.slurm.batch import Batch, Submitter
from harness.launch.slurm.options import Resources, SlurmOptions, read_options, resources
from harness.launch.slurm.preparation import prepare
from harness.launch.slurm.queue import available, max_array_size
from harness.launch.slurm.snapshot import snapshot
from harness.launch.slurm.states import placed
from harness.launch.slurm.submissions import FOLDER, Submission, Task
from harness.launch.wanted_evaluations import ask
from harness.store import LockBusyError, RunStore
from harness.store.files import make_folder
from harness.store.lock import RunLock

OK, FAILED = 0, 1
_DEFAULT_ARRAY = 1001
_LOCK_POLL_SECONDS = 0.5
_LISTED = 10


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
        done = {item.run_id for item in planned if item.status.state == "done"}
        _create(starting, store)
        if settings.prepare:
            _prepare(planned, store, retry=retry)
        submitter = Submitter(
            store.root, settings, code=lambda: snapshot(store.root, require_clean=settings.require_clean)
        )

        def send(batch: Batch) -> Submission:
            submission = submitter.submit(batch)
            _say_submitted(submission, console)
            return submission

        for batch in _batches(starting, settings, max_array_size()) if starting else []:
            send(batch)
        failed = chains.submit(configs, done, store, settings, send, console, retry=retry, submitted=bool(starting))
    if starting:
        console.print(
            f"`python -m harness status --runs {store.root}` shows them; the same command submits what is missing",
            soft_wrap=True,
        )
    failed = failed or any(item.status.state in ("failed", "damaged") and not item.starts for item in planned)
    return FAILED if failed else OK


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
    submitter = Submitter(store.root, settings, code=lambda: store.root / FOLDER / "code" / "COMMIT", folder=folder)
    limit = max_array_size() if available() else _DEFAULT_ARRAY
    batches = _batches([item for item in planned if item.starts], settings, limit)
    for batch in [*batches, *chains.planned(planned, batches, store, settings, limit)]:
        executor = submitter.prepare(batch)
        path = executor.submission.folder / "script.sh"
        path.write_text(executor.script(), encoding="utf-8")
        console.print(f"\n{path}  ({_number(list(batch.tasks.values()))})", soft_wrap=True, markup=False)
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
        ask(run, item.config)


def _prepare(planned: Sequence[Planned], store: RunStore, *, retry: bool) -> None:
    """For the runs that start, and those that are done and still to be evaluated."""
    folders = [store.root / item.run_id for item in planned if item.starts]
    for item in planned:
        if item.status.state == "done" and item.config.evaluation.at:
            run = store.create(item.config)
            if left_to_do(run, item.config, retry=retry).tasks:
                folders.append(run.path)
    if folders:
        prepare(folders)


def _say_left(planned: Sequence[Planned], console: Console) -> None:
    left = [item for item in planned if not item.starts and item.status.state != "done"]
    for item in left[:_LISTED]:
        remedy = "; retry=true submits it again" if item.status.state == "failed" else ""
        console.print(f"{item.status.state}: {item.run_id}: {item.status.reason}{remedy}", soft_wrap=True, markup=False)
    if len(left) > _LISTED:
        console.print(f"... and {len(left) - _LISTED} more, not started now")


def _say_submitted(submission: Submission, console: Console) -> None:
    tasks = list(submission.tasks.values())
    what = f"job {submission.job_id}: {'evaluation ' if tasks[0].kind == 'evaluate' else ''}{tasks[0].job_name}"
    if len(tasks) > 1:
        throttle = min(submission.settings["array_parallelism"], len(tasks))
        what = f"array {submission.job_id}: {_number(tasks)}, {throttle} at a time"
    dependency = submission.settings.get("dependency")
    after = f" after {dependency.partition(':')[2].replace(':', ', ')}" if dependency else ""
    console.print(f"submitted {what}{after}", soft_wrap=True, markup=False)


def _number(tasks: Sequence[Task]) -> str:
    noun = {"train": "run", "evaluate": "evaluation", "collect": "job"}[tasks[0].kind]
    return f"{len(tasks)} {noun}{'s' if len(tasks) > 1 else ''}"

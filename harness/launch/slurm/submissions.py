"""What was submitted to SLURM, and what the jobs say of themselves: ``<runs>/.slurm/submissions/<name>/``.

``tasks.json`` is written before sbatch is called, and SLURM remembers the path of the script in that folder. So a job
in the queue always leads back to its runs, also when the launcher died right after sbatch. ``job_id`` is written after
sbatch; ``events/<index>.jsonl`` by the jobs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from harness.errors import UserError
from harness.store.files import make_folder, write_atomically

FOLDER = ".slurm"
SCHEMA = 1
Kind = Literal["train", "evaluate", "collect"]


@dataclass(frozen=True)
class Task:
    """One job of an array. ``benchmark``: the name of an evaluation's results. ``command``: what an evaluation's worker
    is given after the folder of the run, or what follows ``python -m harness`` in a collect job."""

    kind: Kind
    run_id: str
    benchmark: str | None = None
    command: tuple[str, ...] | None = None

    @property
    def job_name(self) -> str:
        return self.run_id if self.benchmark is None else f"{self.run_id}-{self.benchmark}"


class Submission:
    """One call of sbatch: a folder with the tasks of an array; ``index`` is the number of a task in the array."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(
        cls, root: Path, tasks: dict[int, Task], *, settings: dict[str, Any], folder: Path | None = None
    ) -> Submission:
        """``settings``: what a job needs to know beside its task (nodes, GPUs, seconds of notice, memory)."""
        name = f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
        submission = cls((root / FOLDER / "submissions" if folder is None else folder) / name)
        make_folder(submission.folder / "events")
        content = {
            "schema": SCHEMA,
            "runs": str(root),
            "created": time.time(),
            "settings": settings,
            "tasks": {str(index): asdict(task) for index, task in tasks.items()},
        }
        write_atomically(submission.folder / "tasks.json", json.dumps(content).encode())
        return submission

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def _content(self) -> dict[str, Any]:
        path = self.folder / "tasks.json"
        try:
            content = json.loads(path.read_bytes())
            assert content["schema"] == SCHEMA
            return dict(content)
        except (OSError, ValueError, KeyError, AssertionError) as error:
            raise UserError(
                f"{path}: cannot be read ({error}); delete {self.folder} if none of its jobs runs"
            ) from error

    @property
    def runs(self) -> Path:
        """The folder of the runs."""
        return Path(self._content["runs"])

    @property
    def created(self) -> float:
        """When it was submitted, in seconds since the epoch."""
        return float(self._content["created"])

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._content["settings"])

    @cached_property
    def tasks(self) -> dict[int, Task]:
        return {
            int(index): Task(
                task["kind"], task["run_id"], task["benchmark"], tuple(task["command"]) if task["command"] else None
            )
            for index, task in self._content["tasks"].items()
        }

    @property
    def job_id(self) -> str | None:
        """The id of the array (or job); None: sbatch was never called, or its caller died before writing it down."""
        try:
            return (self.folder / "job_id").read_text().strip() or None
        except OSError:
            return None

    def remember_job(self, job_id: str) -> None:
        write_atomically(self.folder / "job_id", f"{job_id}\n".encode())

    def job_of(self, index: int) -> str | None:
        """``123_4``, or ``123`` for a submission of one task."""
        job_id = self.job_id
        return job_id if job_id is None or len(self.tasks) == 1 else f"{job_id}_{index}"

    def output(self, index: int) -> Path | None:
        """What the job wrote outside the run's own log: set-up commands and SLURM's messages."""
        job = self.job_of(index)
        return None if job is None else self.folder / f"{job}_0_log.out"

    def append(self, index: int, event: str, **values: Any) -> None:
        """Note what happens to task ``index``. Never stops a job: a note that cannot be written is lost."""
        line = json.dumps({"time": round(time.time(), 3), "event": event, **values}) + "\n"
        with contextlib.suppress(OSError):
            file = os.open(self.folder / "events" / f"{index}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(file, line.encode())
            finally:
                os.close(file)

    def events(self, index: int) -> list[dict[str, Any]]:
        try:
            lines = (self.folder / "events" / f"{index}.jsonl").read_text(errors="replace").splitlines()
        except OSError:
            return []
        events = []
        for line in lines:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and "event" in event:
                    events.append(event)
        return events


def submissions(root: Path) -> list[Submission]:
    """Every submission of the store at ``root``, oldest first; unreadable ones are left out."""
    folder = root.absolute() / FOLDER / "submissions"
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [Submission(folder / name) for name in names if (folder / name / "tasks.json").exists()]


def last_task_of(all_submissions: Sequence[Submission], kind: Kind = "train") -> dict[str, tuple[Submission, int]]:
    """Name of a task (run id, for evaluations with the benchmark) -> where it was submitted last."""
    found: dict[str, tuple[Submission, int]] = {}
    for submission in all_submissions:
        with contextlib.suppress(UserError):
            found.update(
                (task.job_name, (submission, index)) for index, task in submission.tasks.items() if task.kind == kind
            )
    return found

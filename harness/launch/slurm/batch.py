"""What becomes one call of sbatch, and the call itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.launch.slurm.executor import ArrayExecutor
from harness.launch.slurm.options import Resources, SlurmOptions
from harness.launch.slurm.submissions import Submission, Task
from harness.pocket.cache import VARIABLE, cache_root
from harness.store.status_command import common_prefix


@dataclass(frozen=True)
class Batch:
    """Tasks of one job array. ``dependency``: as sbatch writes it. ``options``: of these jobs, None: the launch's."""

    tasks: dict[int, Task]
    resources: Resources
    dependency: str | None = None
    options: SlurmOptions | None = None


class Submitter:
    """Everything that the submissions of one launch have in common. ``code``: makes the folder with the code that jobs
    run, the first time it is needed."""

    def __init__(
        self, root: Path, options: SlurmOptions, *, code: Callable[[], Path], folder: Path | None = None
    ) -> None:
        self.root = root
        self.options = options
        self._make_code = code
        self._code: Path | None = None
        self._folder = folder

    def prepare(self, batch: Batch) -> ArrayExecutor:
        """Write the tasks down and make the script; nothing is submitted."""
        options = batch.options or self.options
        settings = {
            "nodes": batch.resources.nodes,
            "gpus_per_node": batch.resources.gpus_per_node,
            "signal_seconds": options.signal_seconds,
            "mem_gb": options.mem_gb,
            "array_parallelism": options.array_parallelism,
            "dependency": batch.dependency,
        }
        if self._code is None:
            self._code = self._make_code()
        submission = Submission.create(self.root, batch.tasks, settings=settings, folder=self._folder)
        executor = ArrayExecutor(submission)
        executor.configure(
            options,
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
        executor.call_sbatch()
        return executor.submission


def _name(names: Sequence[str]) -> str:
    """A job's name: the run's, or what the runs of an array have in common."""
    return names[0] if len(names) == 1 else common_prefix(names).rstrip("-") or "dara"

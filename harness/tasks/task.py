"""What a task is: its channels, its data, how responses are scored and on what a checkpoint is evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UserError, nearest
from harness.rewards.batch import BatchScores, score_batch
from harness.tasks.datasets import MATHS_BENCHMARKS
from harness.tasks.library import Library
from harness.tasks.prompts import Example, monitoring_set

MONITORING_SEED = 0


@dataclass(frozen=True)
class Task:
    """A reward task.

    channels: the names of its rewards, in the order of ``score``'s columns; their bounds are in ``conf/task``.
    training: (data set, split). held_out: (data set, split) never trained on, or None: then a seeded sample of the
    training examples is watched, which tells about learning and is no independent test.
    evaluations: what a checkpoint is evaluated on: ``bfcl_v4`` or data sets of ``harness/tasks``.
    """

    name: str
    channels: tuple[str, ...]
    training: tuple[str, str]
    held_out: tuple[str, str] | None
    evaluations: tuple[str, ...]

    def score(
        self,
        responses: Sequence[str],
        references: Sequence[str],
        lengths: Sequence[int] | None,
        *,
        length_limit: int | None,
        max_response_tokens: int | None = None,
    ) -> BatchScores:
        """:func:`harness.rewards.batch.score_batch` of this task."""
        return score_batch(
            self.name,
            responses,
            references,
            lengths,
            length_limit=length_limit,
            max_response_tokens=max_response_tokens,
        )

    def training_examples(self, library: Library) -> list[Example]:
        """Every training example, in the publisher's order. UserError when the data were not fetched."""
        return library.load(*self.training)

    def held_out_examples(self, library: Library, size: int) -> list[Example]:
        """Examples to evaluate on during training: the first ``size`` held-out ones, or the monitoring set.

        The monitoring set of a size is the same for every run (its seed is fixed) and stays part of the training data.
        """
        if self.held_out is not None:
            return library.load(*self.held_out)[:size]
        return monitoring_set(self.training_examples(library), MONITORING_SEED, size)


_TOOLS = ("rlla_4k", "train"), ("rlla_4k", "validation"), ("bfcl_v4",)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("tool_calling", ("correctness", "format"), *_TOOLS),
        Task("tool_calling_three", ("correctness", "format", "length"), *_TOOLS),
        Task("maths", ("correctness", "length"), ("deepscaler", "train"), None, MATHS_BENCHMARKS),
    )
}


def task(name: str) -> Task:
    """The task of that name. UserError names the nearest one."""
    if name not in TASKS:
        raise UserError(f"unknown task {name!r}: {nearest(name, TASKS)}")
    return TASKS[name]

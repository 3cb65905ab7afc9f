"""Evaluations that a matrix still needs, as work for a launcher: one task for each run and benchmark."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config import RunConfig
from harness.evaluation.options import words_of
from harness.launch.wanted_evaluations import LOG, Wanted, ask, folder_of, stored_steps
from harness.store import Run


@dataclass(frozen=True)
class EvaluationTask:
    """Steps of a run that are to be evaluated on a benchmark."""

    run: Run
    wanted: Wanted

    @property
    def name(self) -> str:
        return f"{self.run.run_id}-{self.wanted.name}"

    @property
    def log_path(self) -> Path:
        return folder_of(self.run, self.wanted.name) / LOG

    def arguments(self) -> list[str]:
        """Of :mod:`harness.launch.evaluation_worker`, after the folder of the run."""
        steps = ",".join(map(str, self.wanted.steps))
        return [self.wanted.benchmark, steps, *words_of(self.wanted.options)]

    def command(self) -> list[str]:
        """For a child of this process."""
        worker = [sys.executable, "-m", "harness.launch.evaluation_worker", "--parent", str(os.getpid())]
        return [*worker, str(self.run.path.resolve()), *self.arguments()]


@dataclass(frozen=True)
class Left:
    """``tasks`` to do now; ``failed``: those left alone because an attempt failed, with its error."""

    tasks: list[EvaluationTask]
    failed: list[tuple[EvaluationTask, str]]


def left_to_do(run: Run, config: RunConfig, *, retry: bool) -> Left:
    """What ``config`` asks for and is not stored; notes in the run that it was asked for."""
    left = Left([], [])
    for wanted in ask(run, config):
        stored, failures = stored_steps(run, wanted)
        given_up = () if retry else tuple(failures)
        steps = tuple(step for step in wanted.steps if step not in (*stored, *given_up))
        if steps:
            left.tasks.append(EvaluationTask(run, replace(wanted, steps=steps)))
        if given_up:
            task = EvaluationTask(run, replace(wanted, steps=given_up))
            left.failed.append((task, str(failures[given_up[0]]["error"])))
    return left


def describe(tasks: Sequence[EvaluationTask]) -> str:
    """``"22 evaluations (pocket)"``: checkpoints, not tasks."""
    count = sum(len(task.wanted.steps) for task in tasks)
    names = ", ".join(dict.fromkeys(task.wanted.name for task in tasks))
    return f"{count} evaluation{'s' if count != 1 else ''} ({names})"

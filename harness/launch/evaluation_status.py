"""The evaluations of many runs: what the store knows joined with what a scheduler knows."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.errors import UserError
from harness.launch.wanted_evaluations import EvaluationStatus, State, evaluation_status, wanted
from harness.store import Run, RunStatus
from harness.store.status_sources import SOURCES


@dataclass(frozen=True)
class EvaluationQueueState:
    """What a scheduler says of an evaluation, e.g. ``("queued", "job 18 pending (Dependency)")``."""

    state: State
    reason: str


def evaluation_statuses(
    runs: Sequence[Run], trainings: Mapping[str, RunStatus], sources: Sequence[str] = SOURCES
) -> dict[str, dict[str, EvaluationStatus]]:
    """Run id -> name of the results -> status, for every run that was asked for evaluations.

    ``sources``: as for runs; each has ``evaluation_states(runs) -> {(run_id, name): EvaluationQueueState}``.
    """
    found: dict[str, dict[str, EvaluationStatus]] = {}
    for run in runs:
        try:
            items = wanted(run)
        except UserError as error:
            found[run.run_id] = {"?": EvaluationStatus("failed", str(error), (), (), ())}
            continue
        if items:
            training = trainings[run.run_id]
            found[run.run_id] = {item.name: evaluation_status(run, item, training) for item in items}
    open_ones = {
        (name, benchmark)
        for name, statuses in found.items()
        for benchmark, status in statuses.items()
        if status.state not in ("done", "running")
    }
    if not open_ones:
        return found
    unfinished = {name for name, _ in open_ones}
    members = [run for run in runs if run.run_id in unfinished]
    for source in sources:
        known: Mapping[tuple[str, str], EvaluationQueueState] = importlib.import_module(source).evaluation_states(
            members
        )
        for (name, benchmark), state in known.items():
            if (name, benchmark) in open_ones:
                status = found[name][benchmark]
                many = f"{len(status.stored)} of {len(status.steps)} stored"
                found[name][benchmark] = replace(status, state=state.state, reason=f"{many}, {state.reason}")
    return found

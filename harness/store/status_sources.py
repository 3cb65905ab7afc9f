"""Joins what the store knows with what a scheduler knows: a run that waits in a queue is ``queued``, not ``new``."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.store.run import Run
from harness.store.status import RunStatus, State

SOURCES: tuple[str, ...] = ("harness.launch.slurm.states",)
"""Modules with ``queue_states(runs) -> {run_id: QueueState}``. A source must answer quickly (one call for all runs) and
return nothing where its scheduler is absent."""


@dataclass(frozen=True)
class QueueState:
    """What a scheduler says of a run, e.g. ``QueueState("queued", "job 17 pending (Resources)")``."""

    state: State
    reason: str


def statuses(runs: Sequence[Run], sources: Sequence[str] = SOURCES) -> dict[str, RunStatus]:
    """The status of each run by its id. A finished or damaged run is what the store says; for the others a scheduler
    that knows the run has the word (of one whose owner lives it tells where it runs)."""
    result = {run.run_id: run.status() for run in runs}
    waiting = [run for run in runs if result[run.run_id].state in ("new", "running", "interrupted", "failed")]
    if not waiting:
        return result
    for source in sources:
        known: Mapping[str, QueueState] = importlib.import_module(source).queue_states(waiting)
        for run_id, queue_state in known.items():
            result[run_id] = replace(result[run_id], state=queue_state.state, reason=queue_state.reason)
    return result

"""Which runs of a matrix still have to be started, and why the others need not or cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.config import RunConfig, run_id
from harness.store import RunStatus, RunStore
from harness.store.status_sources import statuses

NOT_CREATED = "not started"


@dataclass(frozen=True)
class Planned:
    """A run of the matrix, its state before anything starts, and whether this launch starts it."""

    run_id: str
    config: RunConfig
    status: RunStatus
    starts: bool


def plan(configs: Sequence[RunConfig], store: RunStore, *, retry: bool) -> list[Planned]:
    """In the order of ``configs``. Creates nothing: a run without a folder is ``new``.

    Starts: ``new`` and ``interrupted`` runs, and with ``retry`` the ``failed`` ones.
    """
    names = [run_id(config) for config in configs]
    runs = [run for run in map(store.find, configs) if run is not None]
    known = statuses(runs)
    planned = []
    for name, config in zip(names, configs, strict=True):
        status = known.get(name) or RunStatus("new", NOT_CREATED, 0, config.training.steps, 0)
        starts = status.startable or (retry and status.state == "failed")
        planned.append(Planned(name, config, status, starts))
    return planned


def counts(planned: Sequence[Planned]) -> str:
    """``"3 new, 1 done"``, in the order in which a run goes through the states."""
    order = ("new", "queued", "held", "running", "interrupted", "failed", "damaged", "done")
    found = [(state, sum(item.status.state == state for item in planned)) for state in order]
    return ", ".join(f"{number} {state}" for state, number in found if number)

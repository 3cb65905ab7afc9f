"""What a matrix would do and cost: printed by ``dry_run=true``, starts and creates nothing."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from harness.config import RunConfig, identity
from harness.errors import UserError
from harness.launch.selection import Planned, counts, plan
from harness.store import RunStore

_STEPS_READ = 10
_RUNS_READ = 20
_FIRST_ESTIMATE = {("local", "pocket"): 1.2}
"""Seconds a step by (engine, model kind) until a run of the kind was measured: the pocket model on one 2020s core."""

_ORIGINS = {"measured": "measured", "estimate": "estimated, not measured yet"}

_Kind = tuple[Any, ...]


class StepTimes:
    """Seconds a step, measured on the runs of a store; runs of one kind share task, model, engine and batch."""

    def __init__(self, store: RunStore) -> None:
        samples: dict[_Kind, list[float]] = defaultdict(list)
        for run in store.runs():
            try:
                kind = _kind(run.manifest.read()["identity"])
            except (UserError, KeyError, TypeError):
                continue  # a damaged run measures nothing; `harness status` reports it
            if len(samples[kind]) < _RUNS_READ:
                times = [row.get("seconds") for row in run.metrics.tail(_STEPS_READ)]
                known = [float(time) for time in times if isinstance(time, int | float)]
                if known:
                    samples[kind].append(statistics.median(known))
        self._measured = {kind: statistics.median(values) for kind, values in samples.items() if values}

    def of(self, config: RunConfig) -> tuple[float | None, str]:
        """Seconds a step and where the figure is from: ``measured``, ``estimate`` or ``unknown``."""
        measured = self._measured.get(_kind(identity(config)))
        if measured is not None:
            return measured, "measured"
        estimate = _FIRST_ESTIMATE.get((config.engine.name, config.model.kind))
        return (estimate, "estimate") if estimate is not None else (None, "unknown")


def _kind(content: Mapping[str, Any]) -> _Kind:
    return (
        content["task"]["name"],
        content["model"]["name"],
        content["engine"]["name"],
        content["engine"]["device"],
        content["training"]["responses_per_step"],
    )


def print_plan(configs: Sequence[RunConfig], store: RunStore, *, workers: int) -> None:
    """One line a run (state, id, why), then the counts and the cost of what is left on ``workers`` workers."""
    console = Console(highlight=False)
    planned = plan(configs, store, retry=False)
    for item in planned:
        reason = "" if item.status.state in ("new", "done") else f"  {item.status.reason}"
        console.print(Text(f"{item.status.state:<12}{item.run_id}{reason}"), soft_wrap=True)
    console.print(Text(f"\n{len(planned)} runs in {store.root}: {counts(planned)}"), soft_wrap=True)
    console.print(Text(_cost(planned, StepTimes(store), workers)), soft_wrap=True)


def _cost(planned: Sequence[Planned], times: StepTimes, workers: int) -> str:
    total, steps, unknown = 0.0, 0, 0
    sources: set[str] = set()
    for item in planned:
        if item.status.state in ("done", "damaged"):
            continue
        seconds, source = times.of(item.config)
        left = item.config.training.steps - item.status.step
        if seconds is None:
            unknown += 1
            continue
        sources.add(source)
        steps += left
        total += seconds * left
    if not steps and not unknown:
        return "nothing is left to do"
    parts = []
    if steps:
        origin = " and ".join(_ORIGINS[source] for source in sorted(sources))
        parts.append(
            f"left: {steps} steps, about {_hours(total)} of one core ({origin}), {_hours(total / workers)} on "
            f"{workers} workers"
        )
    if unknown:
        parts.append(f"{unknown} runs of a kind whose step time is not known yet")
    return "; ".join(parts)


def _hours(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

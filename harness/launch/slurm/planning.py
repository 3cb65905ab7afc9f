"""What a study costs: GPU hours, storage and the time it takes at least, from measured step times if there are any.

Before a step was measured: the paper's hours per run (arXiv 2610.00574, tool calling on 4 A100-40GB). Where the paper
gives none, and nothing was measured, a cost is unknown and said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config import RunConfig
from harness.launch.plan_matrix import StepTimes
from harness.launch.selection import Planned, plan
from harness.store import RunStore

PUBLISHED_HOURS = {
    ("tool_calling", "qwen2.5-1.5b"): 2.5,
    ("tool_calling", "qwen2.5-3b"): 4.5,
    ("tool_calling_three", "qwen2.5-1.5b"): 2.5,
    ("tool_calling_three", "qwen2.5-3b"): 4.5,
}
"""Hours of a run of 100 steps with 2,048 responses a step: "about 2.5 h", "4 to 5 h"; three rewards train alike."""

PUBLISHED_STEPS = 100

PARAMETERS = {
    "pocket": 0.15e6,
    "qwen2.5-1.5b": 1.54e9,
    "qwen2.5-3b": 3.09e9,
    "qwen3-4b": 4.02e9,
    "qwen3-4b-thinking": 4.02e9,
    "r1-1.5b": 1.78e9,
    "r1-7b": 7.62e9,
}
"""Parameters by model (of the pocket models about)."""

_CHECKPOINT_BYTES = 14
"""A parameter in a checkpoint: weights and two moments of the optimiser in float32, an export in bfloat16."""


@dataclass(frozen=True)
class Cost:
    """Of one run. ``hours`` of what is left; None: unknown. ``source``: measured, published, estimate or unknown."""

    config: RunConfig
    state: str
    hours: float | None
    source: str
    gpus: int
    bytes: float | None

    @property
    def gpu_hours(self) -> float | None:
        return None if self.hours is None else self.hours * max(self.gpus, 1)


def costs(configs: Sequence[RunConfig], store: RunStore) -> list[Cost]:
    """In the order of ``configs``. A run that is done costs nothing more."""
    times = StepTimes(store)
    return [_cost(item, times) for item in plan(configs, store, retry=True)]


def _cost(item: Planned, times: StepTimes) -> Cost:
    config = item.config
    left = 0 if item.status.state == "done" else config.training.steps - item.status.step
    seconds, source = times.of(config)
    if source != "measured":
        published = PUBLISHED_HOURS.get((config.task.name, config.model.name))
        if published is not None and config.training.responses_per_step == 2048:
            seconds, source = published * 3600 / PUBLISHED_STEPS, "published"
    hours = 0.0 if left == 0 else None if seconds is None else left * seconds / 3600
    size = PARAMETERS.get(config.model.name)
    stored = None if size is None else size * _CHECKPOINT_BYTES * max(1, config.output.keep_checkpoints)
    return Cost(config, item.status.state, hours, source, config.engine.nodes * config.engine.gpus_per_node, stored)


def makespan(run_hours: Sequence[float], at_once: int | None) -> float:
    """Hours until all runs are done when ``at_once`` run at a time (None: all), longest first; at least the longest."""
    if not run_hours:
        return 0.0
    if at_once is None or at_once >= len(run_hours):
        return max(run_hours)
    places = [0.0] * at_once
    for hours in sorted(run_hours, reverse=True):
        index = places.index(min(places))
        places[index] += hours
    return max(places)


def requeues(hours: float, limit_minutes: float) -> int:
    """How often a run of ``hours`` meets a time limit."""
    return max(0, math.ceil(hours * 60 / limit_minutes) - 1)

"""What a study costs: GPU hours, storage and the time it takes at least, from measured times if there are any.

Before a step was measured: the paper's hours per run (arXiv 2610.00574, tool calling on 4 A100-40GB). The paper gives
no hours of evaluations. Where nothing is known, a cost is unknown and said to be so.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from harness.config import RunConfig
from harness.engines.verl.options import options_of
from harness.errors import UserError
from harness.launch.plan_matrix import StepTimes
from harness.launch.selection import Planned, plan
from harness.launch.slurm.options import evaluation_gpus
from harness.launch.wanted_evaluations import attempts, stored_steps, wanted, wanted_of
from harness.store import Run, RunStore

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

_CHECKPOINT_BYTES = 12
"""A parameter in a checkpoint: its weight and two moments of the optimiser in float32."""

_EXPORT_BYTES = 4
"""A parameter in a Hugging Face export, float32 as trained."""


@dataclass(frozen=True)
class Evaluating:
    """Evaluations of one run on one benchmark. ``left`` of ``total`` checkpoints are not evaluated; ``hours`` each,
    None: unknown; on ``gpus`` GPUs (0: a processor)."""

    name: str
    left: int
    total: int
    hours: float | None
    gpus: int


@dataclass(frozen=True)
class Cost:
    """Of one run. ``hours`` of training that is left; None: unknown. ``source``: measured, published, estimate or
    unknown. ``bytes``: checkpoints and exports when it is done."""

    config: RunConfig
    state: str
    hours: float | None
    source: str
    gpus: int
    bytes: float | None
    evaluations: tuple[Evaluating, ...] = ()

    @property
    def gpu_hours(self) -> float | None:
        """Of training; processor hours where there are no GPUs."""
        return None if self.hours is None else self.hours * max(self.gpus, 1)

    @property
    def evaluation_hours(self) -> float | None:
        """Of all evaluations one after the other; None: some of them unknown."""
        left = [item for item in self.evaluations if item.left]
        if any(item.hours is None for item in left):
            return None
        return sum((item.hours or 0.0) * item.left for item in left)

    @property
    def chain_hours(self) -> float | None:
        """Training and then the evaluations, those of two benchmarks side by side; what is unknown counts nothing."""
        if self.hours is None:
            return None
        return self.hours + max(((item.hours or 0.0) * item.left for item in self.evaluations), default=0.0)


def costs(configs: Sequence[RunConfig], store: RunStore) -> list[Cost]:
    """In the order of ``configs``. A run that is done costs nothing more but its evaluations."""
    times, evaluation_times = StepTimes(store), EvaluationTimes(store)
    return [_cost(item, store, times, evaluation_times) for item in plan(configs, store, retry=True)]


class EvaluationTimes:
    """Hours an evaluation of one checkpoint took on the runs of a store, median by benchmark and model."""

    def __init__(self, store: RunStore) -> None:
        samples: dict[tuple[str, str], list[float]] = defaultdict(list)
        for run in store.runs():
            try:
                names = [item.name for item in wanted(run)]
                model = str(run.manifest.read()["identity"]["model"]["name"]) if names else ""
            except (UserError, KeyError, TypeError):
                continue  # a damaged run measures nothing; `harness status` reports it
            for name in names:
                samples[name, model] += _hours_by_step(run, name)
        self._hours = {key: statistics.median(values) for key, values in samples.items() if values}

    def of(self, name: str, model: str) -> float | None:
        return self._hours.get((name, model))


def _hours_by_step(run: Run, name: str) -> list[float]:
    """Of each checkpoint that is evaluated, all its attempts together."""
    seconds: dict[int, float] = defaultdict(float)
    whole: set[int] = set()
    for attempt in attempts(run, name):
        seconds[attempt["step"]] += float(attempt.get("seconds") or 0.0)
        if attempt["outcome"] == "stored":
            whole.add(attempt["step"])
    return [seconds[step] / 3600 for step in whole]


def _cost(item: Planned, store: RunStore, times: StepTimes, evaluation_times: EvaluationTimes) -> Cost:
    config = item.config
    left = 0 if item.status.state == "done" else config.training.steps - item.status.step
    seconds, source = times.of(config)
    if source != "measured":
        published = PUBLISHED_HOURS.get((config.task.name, config.model.name))
        if published is not None and config.training.responses_per_step == 2048:
            seconds, source = published * 3600 / PUBLISHED_STEPS, "published"
    hours = 0.0 if left == 0 else None if seconds is None else left * seconds / 3600
    gpus = config.engine.nodes * config.engine.gpus_per_node
    return Cost(
        config,
        item.status.state,
        hours,
        source,
        gpus,
        stored_bytes(config),
        _evaluations(config, Run(store.root / item.run_id), evaluation_times),
    )


def _evaluations(config: RunConfig, run: Run, times: EvaluationTimes) -> tuple[Evaluating, ...]:
    found = []
    for item in wanted_of(config):
        stored, _ = stored_steps(run, item)
        hours, gpus = times.of(item.name, config.model.name), evaluation_gpus(item.options)
        found.append(Evaluating(item.name, len(item.steps) - len(stored), len(item.steps), hours, gpus))
    return tuple(found)


def stored_bytes(config: RunConfig) -> float | None:
    """Bytes of a finished run's checkpoints and exports; None for a model of unknown size.

    verl keeps an export of each evaluation step and the last checkpoints; the embedded engine a checkpoint of each step
    of ``evaluate_at``, the last ones, and an export of the last step.
    """
    size = PARAMETERS.get(config.model.name)
    if size is None:
        return None
    training, keep = config.training, max(1, config.output.keep_checkpoints)
    evaluated = set(config.evaluation.at) - {0}
    if config.engine.name == "verl":
        made = {
            *range(training.evaluate_every, training.steps + 1, training.evaluate_every),
            training.steps,
        } | evaluated
        newest = options_of(config).keep_exports
        kept = made if newest is None else {*sorted(made)[-max(1, newest) :], *evaluated}
        return size * (keep * _CHECKPOINT_BYTES + len(kept) * _EXPORT_BYTES)
    checkpoints = keep + len(evaluated - {training.steps})
    return size * (checkpoints * _CHECKPOINT_BYTES + _EXPORT_BYTES)


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

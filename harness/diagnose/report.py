"""A log measured: one report per step, every method replayed, and what all steps have in common."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np

from harness.aggregation import Batch, aggregate_batch, get_method, prepare
from harness.diagnose.cells import Floats
from harness.diagnose.measure import ChannelStep, StepReport, measure
from harness.diagnose.pool import WORKERS, pool_of
from harness.diagnose.progress import progress
from harness.diagnose.reading import Log
from harness.diagnose.replay import BASE, Replay, Tally, prepare_replays, run_step
from harness.diagnose.rows import Rows, codes, span
from harness.errors import UserError

BLOCK = 16
"""Steps that one task measures."""
_PARALLEL_FROM = 200_000


@dataclass(frozen=True)
class Diagnosis:
    """warnings: of the log, and of steps that cannot be measured. limits: (lowest, highest) reward by channel, declared
    or seen (``declared`` names those that are). two: channels of two values. normalization: of the replay."""

    log: Log
    steps: Sequence[StepReport]
    replays: Sequence[Replay]
    warnings: Sequence[str]
    limits: Mapping[str, tuple[float, float]]
    declared: frozenset[str]
    two: frozenset[str]
    normalization: str

    @property
    def channels(self) -> tuple[str, ...]:
        return self.log.columns.channels

    def series(self, channel: str, value: Callable[[ChannelStep], float]) -> Floats:
        """A value of one channel by step."""
        return np.array([value(step.channels[channel]) for step in self.steps], dtype=np.float64)

    def by_groups(self, channel: str, value: Callable[[ChannelStep], float]) -> float:
        """Mean of a value over all groups of all steps; steps without it (NaN) are left out, NaN where all are."""
        values = self.series(channel, value)
        groups = np.array([step.groups for step in self.steps], dtype=np.float64)
        known = ~np.isnan(values)
        return float(values[known] @ groups[known] / groups[known].sum()) if known.any() else math.nan

    def total(self, value: Callable[[StepReport], float]) -> float:
        return float(sum(value(step) for step in self.steps))


def diagnose(
    log: Log,
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    weights: Mapping[str, float] | None = None,
    methods: Sequence[str] | None = None,
    normalization: str = "response",
) -> Diagnosis:
    """Measure each step of a log and replay the methods on it.

    bounds: (lowest, highest) reward by channel, for the methods that need it. weights: of the fixed-weight methods.
    UserError: a reward outside its bounds, a channel that is not there, no step with a group of two responses."""
    bounds, weights = bounds or {}, weights or {}
    channels = log.columns.channels
    _check_bounds(log, bounds)
    limits = {name: bounds.get(name, log.numbers[name]) for name in channels}
    two = {name for place, name in enumerate(channels) if _takes_two(log.rows.rewards[:, place], limits[name])}
    if normalization == "token" and log.rows.lengths is None:
        raise UserError("--normalization token needs a column of token counts; name it with --length")
    steps: list[StepReport] = []
    single: list[int] = []
    replays = prepare_replays(methods, channels, bounds, weights)
    asked = _Asked(channels, methods, bounds, weights, normalization, limits, frozenset(two))
    for block in _measured(log.rows, asked):
        steps += block.steps
        single += block.single
        for whole, part in zip(replays, block.tallies, strict=True):
            whole.add(part)
    warnings = list(log.warnings)
    if not steps:
        raise UserError(
            f"every group of column {log.columns.group} has one response, so nothing can be compared; "
            "name the column of the prompt or group with --group"
        )
    if single:
        warnings.append(f"{span(np.array(single))}: no group with two responses, not measured")
    warnings += _uneven(steps)
    return Diagnosis(log, steps, replays, warnings, limits, frozenset(bounds), frozenset(two), normalization)


@dataclass(frozen=True)
class _Asked:
    """What every step is measured with; see :func:`diagnose`."""

    channels: tuple[str, ...]
    methods: Sequence[str] | None
    bounds: Mapping[str, tuple[float, float]]
    weights: Mapping[str, float]
    normalization: str
    limits: Mapping[str, tuple[float, float]]
    two: frozenset[str]


@dataclass(frozen=True)
class _Block:
    """Some steps in a row: measured ones, those of lone responses, and each method's tally of these steps alone."""

    steps: list[StepReport]
    single: list[int]
    tallies: list[Tally]


def _measured(rows: Rows, asked: _Asked) -> Iterator[_Block]:
    """All steps in blocks, in order. The blocks do not depend on the number of processes, so neither do the sums."""
    starts = np.flatnonzero(np.diff(rows.steps, prepend=rows.steps[0] - 1))
    edges = [*starts[::BLOCK].tolist(), len(rows)]
    steps = len(starts)
    parallel = WORKERS > 1 and len(edges) > 2 and len(rows) >= _PARALLEL_FROM
    with pool_of(WORKERS) if parallel else nullcontext() as pool, progress("measuring", len(edges) - 1) as done:
        waiting: list[Future[_Block]] = []
        for number, (start, end) in enumerate(itertools.pairwise(edges)):
            part = rows.take(np.arange(start, end))
            if pool is None:
                yield _block(part, asked, number * BLOCK, steps)
            else:
                waiting.append(pool.submit(_block, part, asked, number * BLOCK, steps))
                if len(waiting) > 2 * WORKERS:
                    yield waiting.pop(0).result()
            done(1)
        for future in waiting:
            yield future.result()


def _block(rows: Rows, asked: _Asked, before: int, total: int) -> _Block:
    """``before`` of the log's ``total`` steps come before this block."""
    replays = prepare_replays(asked.methods, asked.channels, asked.bounds, asked.weights)
    reports: list[StepReport] = []
    single: list[int] = []
    base, dara = get_method(BASE), get_method("dara_sym")
    for number, (step, part) in enumerate(_steps(rows), before):
        batch = _batch(part, asked.channels)
        if batch is None:
            single.append(step)
            continue
        plain = aggregate_batch(base, batch, normalization=asked.normalization)
        reports.append(measure(step, batch, plain, aggregate_batch(dara, batch), asked.limits, asked.two))
        for replay in replays:
            run_step(replay, batch, plain, part.logged, asked.normalization, number / max(total - 1, 1))
    return _Block(reports, single, [replay.tally() for replay in replays])


def _steps(rows: Rows) -> Iterator[tuple[int, Rows]]:
    starts = np.flatnonzero(np.diff(rows.steps, prepend=rows.steps[0] - 1))
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield int(rows.steps[start]), rows.take(np.arange(start, end))


def _batch(rows: Rows, channels: tuple[str, ...]) -> Batch | None:
    """The batch of one step; None where no two responses share a group."""
    if np.isnan(rows.rewards).all():
        return None
    batch = prepare(rows.rewards, codes(rows.groups), channels=channels, lengths=rows.lengths)
    return batch if batch.sizes.max() > 1 else None


def _check_bounds(log: Log, bounds: Mapping[str, tuple[float, float]]) -> None:
    for name, (low, high) in bounds.items():
        if name not in log.columns.channels:
            raise UserError(f"--bounds {name}: not a channel of the log; channels: {', '.join(log.columns.channels)}")
        least, most = log.numbers[name]
        if least < low or most > high:
            values = log.rows.rewards[:, log.columns.channels.index(name)]
            with np.errstate(invalid="ignore"):
                row = int(np.argmax((values < low) | (values > high)))
            where = f"{log.sources[log.rows.files[row]].path} line {log.rows.lines[row]}"
            raise UserError(
                f"{where}: {name} is {values[row]:g}, outside --bounds {name}={low:g},{high:g}; "
                f"the log has {least:g} to {most:g}"
            )


def _takes_two(values: Floats, limit: tuple[float, float]) -> bool:
    low, high = limit
    return low < high and bool((np.isnan(values) | (values == low) | (values == high)).all())


def _uneven(steps: Sequence[StepReport]) -> list[str]:
    least, most = min(step.sizes[0] for step in steps), max(step.sizes[1] for step in steps)
    if least == most:
        return []
    return [f"groups are uneven: {least} to {most} responses; a group of one has advantage 0 and counts in the density"]

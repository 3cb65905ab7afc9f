"""Every method on the batches of a log: how far its advantages are from gdpo's, and which channel they reinforce."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from harness.aggregation import Aggregation, Batch, Method, aggregate_batch, get_method, load_method, method_names
from harness.aggregation import step_parameters as filled
from harness.diagnose.cells import Floats
from harness.errors import UserError

BASE = "gdpo"
ON_RAW_REWARDS = frozenset({"grpo", "saw_grpo", "dr_grpo"})
"""Methods that add up rewards, not normalised advantages."""

ZERO = 1e-8
"""Advantages up to this size have no sign."""


class Moments:
    """Pearson correlation of pairs that come batch by batch."""

    def __init__(self) -> None:
        self._sums = np.zeros(6)

    def add(self, x: Floats, y: Floats) -> None:
        self._sums += np.array([len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y])

    def merge(self, other: Moments) -> None:
        self._sums += other._sums

    @property
    def correlation(self) -> float:
        """NaN where one side does not vary."""
        n, sx, sy, sxx, syy, sxy = self._sums.tolist()
        if n < 2:
            return math.nan
        vx, vy = sxx - sx * sx / n, syy - sy * sy / n
        if vx <= 1e-12 * sxx or vy <= 1e-12 * syy:
            return math.nan
        return max(-1.0, min(1.0, (sxy - sx * sy / n) / math.sqrt(vx * vy)))


@dataclass
class Tally:
    """What one method did over some steps.

    with_base, with_logged: correlation of its advantages with gdpo's, and with those in the log. mass: the positive
    part of its advantages, divided over the channels; a response's part goes to its channels in proportion to the
    positive terms w_k [A_k]_+ (w_k [r_k - mean]_+ for a method that adds up rewards). flipped: responses whose sign is
    opposite to gdpo's. silenced: responses that have a sign with gdpo and none here. weights: summed over steps.
    skipped: why it does not run."""

    mass: Floats
    skipped: str = ""
    with_base: Moments = field(default_factory=Moments)
    with_logged: Moments = field(default_factory=Moments)
    flipped: int = 0
    silenced: int = 0
    responses: int = 0
    steps: int = 0
    weights: Floats | None = None

    def add(self, other: Tally) -> None:
        """Take in other steps. A step at which the method cannot run ends it for all."""
        if self.skipped or other.skipped:
            self.skipped = self.skipped or other.skipped
            return
        self.with_base.merge(other.with_base)
        self.with_logged.merge(other.with_logged)
        self.mass = self.mass + other.mass
        self.flipped += other.flipped
        self.silenced += other.silenced
        self.responses += other.responses
        self.steps += other.steps
        if other.weights is not None:
            self.weights = other.weights if self.weights is None else self.weights + other.weights

    @property
    def mass_share(self) -> Floats:
        total = self.mass.sum()
        return self.mass / total if total else np.full_like(self.mass, np.nan)

    @property
    def mean_weights(self) -> Floats:
        return np.ones_like(self.mass) if self.weights is None else self.weights / max(self.steps, 1)


@dataclass(kw_only=True)
class Replay(Tally):
    """A method, the parameters it is given, and its tally."""

    method: Method
    given: dict[str, Any]

    def tally(self) -> Tally:
        """The tally alone: a method of the user's cannot be sent between processes."""
        return Tally(**{item.name: getattr(self, item.name) for item in fields(Tally)})


def prepare_replays(
    chosen: Sequence[str] | None,
    channels: Sequence[str],
    bounds: Mapping[str, tuple[float, float]],
    weights: Mapping[str, float],
) -> list[Replay]:
    """The methods to run; one that lacks the bounds or weights it needs is there with the reason in ``skipped``."""
    replays = []
    for name in chosen if chosen is not None else method_names():
        try:
            method = load_method(name)
        except ValueError as error:
            raise UserError(f"--methods {name}: {error}") from error
        given: dict[str, Any] = {}
        skipped = ""
        if "bounds" in method.parameters:
            lacking = [channel for channel in channels if channel not in bounds]
            given["bounds"] = {channel: bounds[channel] for channel in channels if channel in bounds}
            if lacking:
                skipped = "needs --bounds for " + ", ".join(lacking)
        if method.parameters.get("weights") is not None:
            if weights:
                given["weights"] = {channel: weights.get(channel, 1.0) for channel in channels}
            elif set(method.parameters["weights"]) != set(channels):
                skipped = "needs --weights, one by channel"
        replays.append(Replay(method=method, given=given, mass=np.zeros(len(channels)), skipped=skipped))
    return replays


def run_step(
    replay: Replay, batch: Batch, base: Aggregation, logged: Floats | None, kind: str, progress: float
) -> None:
    """Add one step. ``logged`` [responses of the log's step]: advantages found in the log."""
    if replay.skipped:
        return
    name = replay.method.name
    if name == BASE:
        found = base
    else:
        given = filled(replay.method, replay.given, bounds={}, progress=progress)
        try:
            found = aggregate_batch(replay.method, batch, normalization=kind, **given)
        except ValueError as error:
            replay.skipped = str(error)
            return
    rows = batch.positions
    mine, theirs = found.advantages[rows], base.advantages[rows]
    replay.with_base.add(mine, theirs)
    if logged is not None:
        known = ~np.isnan(logged[rows])
        replay.with_logged.add(mine[known], logged[rows][known])
    replay.flipped += int(((mine > ZERO) & (theirs < -ZERO) | (mine < -ZERO) & (theirs > ZERO)).sum())
    replay.silenced += int(((np.abs(mine) <= ZERO) & (np.abs(theirs) > ZERO)).sum())
    replay.responses += len(rows)
    replay.steps += 1
    weights = np.array([found.weights[channel] for channel in batch.channels])
    replay.weights = weights if replay.weights is None else replay.weights + weights
    terms = batch.deviations if name in ON_RAW_REWARDS else found.channel_advantages[rows]
    terms = np.maximum(terms * weights, 0.0)
    total = terms.sum(axis=1)
    scale = np.divide(np.maximum(mine, 0.0), total, out=np.zeros_like(total), where=total > 0)
    replay.mass += scale @ terms


def base_method() -> Method:
    return get_method(BASE)

"""When a curve reaches a threshold: first, sustained, and the paper's stable crossing.

A curve is a pandas Series, value by step, ascending; steps that were not logged are absent and a NaN is a step without
a value. Nothing is interpolated: a crossing is always at a step that was observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

FORMAT_LEVEL: Final = 0.8
LENGTH_LEVELS: Final = (0.80, 0.90, 0.95, 0.97, 0.98, 0.99)
HELD_OUT_LEVEL: Final = 0.95
WINDOW: Final = 10
HORIZON: Final = 20


@dataclass(frozen=True)
class Crossing:
    """``at`` is the step (or count of responses) of the crossing, None when it was not seen.

    ``after`` is the last observation before it (the crossing lies in (after, at]); when ``at`` is None the curve is
    censored at ``last``, its last observation, with ``reason``.
    """

    at: float | None
    after: float
    last: float
    reason: str

    @property
    def reached(self) -> bool:
        return self.at is not None


def first_crossing(curve: pd.Series, level: float) -> Crossing:
    """First observation >= ``level`` (the paper's time to 0.8 format; arXiv 2610.00574, learning speed)."""
    return sustained_crossing(curve, level, hold=1)


def sustained_crossing(curve: pd.Series, level: float, *, hold: int) -> Crossing:
    """First observation from which ``hold`` consecutive observations are all >= ``level``.

    A spike shorter than ``hold`` does not count, a NaN breaks the run. Observations, not steps, are counted: at one
    observation every 10 steps ``hold=3`` spans 20 steps. Fewer than ``hold`` observations left at the end do not count.
    """
    if hold < 1:
        raise ValueError(f"hold = {hold} must be at least 1")
    steps, values = _arrays(curve)
    above = values >= level
    run = np.convolve(above.astype(int), np.ones(hold, int), mode="valid") == hold if len(above) >= hold else above[:0]
    found = np.flatnonzero(run)
    return _crossing(
        steps,
        int(found[0]) if len(found) else None,
        f"below {level:g} to the end" if hold == 1 else f"never {hold} observations in a row at {level:g}",
    )


def stable_crossing(curve: pd.Series, level: float, *, window: int = WINDOW, horizon: int = HORIZON) -> Crossing:
    """The paper's rule: first step t at which the trailing mean over ``window`` steps is >= ``level`` and stays so
    through t + ``horizon``.

    All steps from t - window + 1 to t + horizon must be logged: a gap in them rules t out (it is not bridged), and a
    curve that ends before t + horizon cannot show stability. Then ``last`` is the last step that could be judged,
    that is the end of the curve minus ``horizon``.
    """
    steps, values = _arrays(curve)
    if len(steps) == 0:
        return Crossing(None, 0.0, 0.0, "no observations")
    grid = np.full(int(steps[-1]) - int(steps[0]) + 1, np.nan)
    grid[(steps - steps[0]).astype(int)] = values
    full_steps = np.arange(int(steps[0]), int(steps[-1]) + 1)
    if len(grid) < window + horizon:
        return Crossing(None, 0.0, max(float(steps[-1]) - horizon, 0.0), f"fewer than {window + horizon} steps")
    means = np.convolve(grid, np.ones(window), mode="valid") / window  # a NaN spoils every window it is in
    # a window of values all equal to the level must pass whatever the order of summation
    above = means >= level - 1e-12
    ends = full_steps[window - 1 :]
    stays = np.convolve(above.astype(int), np.ones(horizon + 1, int), mode="valid") == horizon + 1
    found = np.flatnonzero(stays)
    if len(found) == 0:
        judged = max(float(ends[-1] - horizon), 0.0)
        reason = f"never stable at {level:g} (trailing mean of {window}, through {horizon} more steps)"
        return Crossing(None, judged, judged, reason)
    at = float(ends[found[0]])
    return Crossing(at, at - 1, float(steps[-1]), "stable")


def crossing(curve: pd.Series, level: float, rule: str, *, hold: int = 3) -> Crossing:
    """``rule``: ``first``, ``sustained`` (with ``hold``) or ``stable``."""
    if rule == "first":
        return first_crossing(curve, level)
    if rule == "sustained":
        return sustained_crossing(curve, level, hold=hold)
    if rule == "stable":
        return stable_crossing(curve, level)
    raise ValueError(f"rule {rule!r} must be first, sustained or stable")


def median_curve(curves: Mapping[str, pd.Series]) -> pd.Series:
    """Median over runs at every step that all runs have logged.

    At a step that some run lacks (it stopped early) a median of the others would be a median of the survivors, so the
    step is left out.
    """
    if not curves:
        return pd.Series(dtype=float)
    table = pd.DataFrame(dict(curves)).dropna(how="any").sort_index()
    return table.median(axis=1)


def in_responses(curve: pd.Series, responses: pd.Series) -> pd.Series:
    """The curve over responses generated so far instead of steps; both are Series by step.

    Steps without a count are left out. Counts include filtered responses, so that methods that discard groups pay
    for them.
    """
    shared = curve.index.intersection(responses.dropna().index)
    return pd.Series(curve.loc[shared].to_numpy(float), index=responses.loc[shared].to_numpy(float))


def _arrays(curve: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    curve = curve.sort_index()
    return curve.index.to_numpy(float), curve.to_numpy(float)


def _crossing(steps: np.ndarray, found: int | None, never: str) -> Crossing:
    if len(steps) == 0:
        return Crossing(None, 0.0, 0.0, "no observations")
    last = float(steps[-1])
    if found is None:
        return Crossing(None, last, last, never)
    return Crossing(float(steps[found]), float(steps[found - 1]) if found else 0.0, last, "reached")

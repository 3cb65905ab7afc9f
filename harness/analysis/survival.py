"""Times to a threshold when some runs never reach it: Kaplan-Meier, restricted mean, log-rank.

A run that never reaches is censored at its last observation, not dropped and not given a made-up time. An event counts
at the observation that showed it; when observations are further apart than one step, the event lies anywhere since
the one before, and the median is reported with both ends.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.analysis.distributions import normal_quantile, t_quantile
from harness.analysis.intervals import LEVEL, Interval
from harness.analysis.seeding import generator_for
from harness.analysis.thresholds import Crossing

EXACT_UP_TO: Final = 20_000
DRAWS: Final = 20_000


@dataclass(frozen=True)
class Survival:
    """``reached`` of ``n`` runs crossed. ``median`` inf: half of the runs never did. ``median_from``: the median if
    every event lay at the earliest moment its observations allow. ``restricted_mean`` is the mean time up to ``tau``,
    a run that has not crossed by then counting ``tau``."""

    n: int
    reached: int
    median: float
    median_low: float
    median_high: float
    median_from: float
    restricted_mean: Interval
    tau: float

    def __str__(self) -> str:
        return f"reached {self.reached}/{self.n}"


@dataclass(frozen=True)
class LogRank:
    """``p`` of the two-sided permutation test of the log-rank statistic; ``smallest_p`` that these sizes allow.

    ``p_earlier`` is one-sided, small when the first set crosses earlier than the second; ``p_later`` the other way.
    """

    statistic: float
    p: float
    smallest_p: float
    permutations: int
    exact: bool
    p_earlier: float = math.nan
    p_later: float = math.nan


def survival(crossings: Sequence[Crossing], *, tau: float | None = None, level: float = LEVEL) -> Survival:
    """Kaplan-Meier over runs. ``tau`` defaults to the largest time up to which every run is known: the smallest
    censoring time, or the last event when none is censored.

    The interval of the median inverts the test of S(t) = 0.5 on the log(-log) scale (Brookmeyer and Crowley 1982); a
    bound of inf means that these runs do not bound it. The interval of the restricted mean takes Greenwood's
    variance times n / (n - 1) and Student's t with n - 1 df, which without censoring is the t interval of the mean; the
    usual normal one is far too short at 5 runs. No bounds below 3 runs.
    """
    times, events = _times(crossings)
    n = len(times)
    if n == 0:
        nothing = Interval(math.nan, math.nan, math.nan, 0, level, "none", "no runs")
        return Survival(0, 0, math.nan, math.nan, math.nan, math.nan, nothing, math.nan)
    if tau is None:
        tau = float(times[~events].min()) if (~events).any() else float(times.max())
    at, survivors, variance = kaplan_meier(times, events)
    low, high = _median_bounds(at, survivors, variance, level)
    earliest = np.array(
        [c.after + 1 if c.at is not None and c.at - c.after > 1 else t for c, t in zip(crossings, times, strict=True)]
    )
    return Survival(
        n,
        int(events.sum()),
        _median(at, survivors),
        low,
        high,
        _median(*kaplan_meier(earliest, events)[:2]),
        _restricted_mean(times, events, tau, level),
        tau,
    )


def kaplan_meier(times: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Event times, survival just after each, and Greenwood's sum of d / (r (r - d)) (inf where all are gone)."""
    at = np.unique(times[events])
    at_risk = (times[None, :] >= at[:, None]).sum(axis=1)
    died = ((times[None, :] == at[:, None]) & events[None, :]).sum(axis=1)
    survivors = np.cumprod(1 - died / at_risk)
    with np.errstate(divide="ignore"):
        greenwood = np.cumsum(died / (at_risk * np.maximum(at_risk - died, 0)).astype(float))
    return at, survivors, greenwood


def logrank(first: Sequence[Crossing], second: Sequence[Crossing], key: tuple[object, ...]) -> LogRank:
    """Permutation log-rank test of two independent sets of runs.

    All C(n + m, n) relabellings are tried up to 20,000, beyond that 20,000 random ones (their p counts the observed
    labelling as one). The asymptotic chi-square is not used: at 5 against 5 runs it is wrong where it matters.
    """
    times, events = _times([*first, *second])
    n, total = len(first), len(times)
    if n == 0 or n == total:
        return LogRank(math.nan, math.nan, math.nan, 0, True)
    scores = _logrank_scores(times, events)
    observed = float(scores[:n].sum())
    count = math.comb(total, n)
    exact = count <= EXACT_UP_TO
    if exact:
        picks = np.array(list(itertools.combinations(range(total), n)))
    else:
        rng = generator_for("logrank", *key)
        picks = np.argsort(rng.random((DRAWS, total)), axis=1)[:, :n]
    sums = scores[picks].sum(axis=1)

    def share(extreme: np.ndarray) -> float:
        found = int(np.count_nonzero(extreme))
        return found / count if exact else (found + 1) / (DRAWS + 1)

    smallest = (2 if 2 * n == total else 1) / count if exact else 1 / (DRAWS + 1)
    spread = math.sqrt(scores.var(ddof=0) * n * (total - n) / (total - 1)) if total > 1 else 0.0
    return LogRank(
        statistic=observed / spread if spread > 0 else 0.0,
        p=share(np.abs(sums) >= abs(observed) - 1e-9),
        smallest_p=smallest,
        permutations=len(picks),
        exact=exact,
        p_earlier=share(sums >= observed - 1e-9),
        p_later=share(sums <= observed + 1e-9),
    )


def _logrank_scores(times: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Score of each run: its event minus the hazard it passed through. The sum over a group is observed - expected."""
    at = np.unique(times[events])
    at_risk = (times[None, :] >= at[:, None]).sum(axis=1)
    died = ((times[None, :] == at[:, None]) & events[None, :]).sum(axis=1)
    hazard = died / at_risk
    passed = (times[:, None] >= at[None, :]) @ hazard if len(at) else np.zeros(len(times))
    return events.astype(float) - passed


def _times(crossings: Sequence[Crossing]) -> tuple[np.ndarray, np.ndarray]:
    times = np.array([c.last if c.at is None else c.at for c in crossings], float)
    return times, np.array([c.at is not None for c in crossings], bool)


def _median(at: np.ndarray, survivors: np.ndarray) -> float:
    """First time with survival <= 0.5; halfway to the next event where it is exactly 0.5, as for a sample median."""
    below = np.flatnonzero(survivors <= 0.5 + 1e-12)
    if len(below) == 0:
        return math.inf
    first = int(below[0])
    if abs(survivors[first] - 0.5) < 1e-12 and first + 1 < len(at):
        return float(at[first] + at[first + 1]) / 2
    return float(at[first])


def _median_bounds(at: np.ndarray, survivors: np.ndarray, greenwood: np.ndarray, level: float) -> tuple[float, float]:
    z = float(normal_quantile((1 + level) / 2))
    inside, last_compatible = [], -1
    for index, (share, variance) in enumerate(zip(survivors, greenwood, strict=True)):
        if not 0 < share < 1 or not math.isfinite(variance):
            continue
        error = math.sqrt(variance) / abs(math.log(share))
        if abs(math.log(-math.log(share)) - math.log(math.log(2))) <= z * error:
            inside.append(float(at[index]))
            last_compatible = index
    if not inside:
        return (float(at[0]), math.inf) if len(at) else (math.nan, math.inf)
    after = last_compatible + 1
    unbounded = after >= len(at) or survivors[after] <= 0
    return inside[0], math.inf if unbounded else float(at[after])


def _restricted_mean(times: np.ndarray, events: np.ndarray, tau: float, level: float) -> Interval:
    at, survivors, _ = kaplan_meier(times, events)
    inside = at < tau
    edges = np.concatenate([[0.0], at[inside], [tau]])
    heights = np.concatenate([[1.0], survivors[inside]])
    areas = np.diff(edges) * heights
    mean = float(areas.sum())
    n = len(times)
    if n < 3:
        return Interval(mean, math.nan, math.nan, n, level, "none", f"n = {n}: points only")
    at_risk = (times[None, :] >= at[inside, None]).sum(axis=1)
    died = ((times[None, :] == at[inside, None]) & events[None, :]).sum(axis=1)
    rest = areas[::-1].cumsum()[::-1][1:]  # area to the right of each event
    left = at_risk - died
    terms = np.where(left > 0, rest**2 * died / np.maximum(at_risk * left, 1), 0.0)
    half = t_quantile(n - 1, (1 + level) / 2) * math.sqrt(float(terms.sum()) * n / (n - 1))
    note = "censored before tau" if (times[~events] < tau).any() else ""
    return Interval(
        mean, mean - half, mean + half, n, level, f"restricted mean to {tau:g}, Greenwood, t with {n - 1} df", note
    )

"""Intervals, each for one source of uncertainty and named by it.

seeds       another training run with another seed          Student t over runs
questions   another draw of benchmark questions             bootstrap of questions, one checkpoint
both        another seed and other questions                two-level bootstrap
curve       another set of runs, whole curves               bootstrap of runs, never of single steps

No interval covers a change of prompts, base model or implementation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from harness.analysis.distributions import normal_probability, normal_quantile, t_quantile
from harness.analysis.seeding import generator_for

LEVEL: Final = 0.95
RESAMPLES: Final = 2000
ENUMERATE_UP_TO: Final = 7
"""Bootstrap samples of at most this many runs are enumerated (1,716 distinct ones), so they need no random numbers."""
BCA_MINIMUM: Final = 20
_SPARSE = 4
_GRID, _ON_GRID = 64, 1e-7
"""Most steps between the least and the largest value of a grid, and how far from it a value may lie, in steps."""
_SUPPORT = 1 << 18
_CHUNK = 32  # resamples at once: their indices stay in the cache


@dataclass(frozen=True)
class Interval:
    """``estimate`` with ``low`` and ``high`` at confidence ``level``; NaN bounds mean points only, see ``note``."""

    estimate: float
    low: float
    high: float
    n: int
    level: float
    method: str
    note: str = ""

    @property
    def known(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)

    def contains(self, value: float) -> bool:
        return self.known and self.low <= value <= self.high


def _points_only(estimate: float, n: int, level: float, note: str) -> Interval:
    return Interval(estimate, math.nan, math.nan, n, level, "none", note)


def mean_over_seeds(values: np.ndarray | list[float], *, level: float = LEVEL) -> Interval:
    """Student t over runs (sample standard deviation, ddof 1). Below n = 3 there is no interval, only points.

    Values that are all equal give an interval without width and a note. NaN raises ValueError: a missing run is the
    caller's to report, not ours to drop.
    """
    values = _finite(values)
    n = len(values)
    if n == 0:
        return _points_only(math.nan, 0, level, "no runs")
    mean = float(values.mean())
    if n < 3:
        return _points_only(mean, n, level, f"n = {n}: points only")
    half = t_quantile(n - 1, (1 + level) / 2) * float(values.std(ddof=1)) / math.sqrt(n)
    note = "all values are equal" if half == 0 else ""
    return Interval(mean, mean - half, mean + half, n, level, f"Student t, {n - 1} df", note)


def resampled_means(values: np.ndarray, rng: np.random.Generator, resamples: int = RESAMPLES) -> np.ndarray:
    """Means of ``resamples`` bootstrap samples of ``values`` [n] or [n, m] -> [resamples] or [resamples, m].

    Rows are drawn whole. Three ways to the same law, the quickest that applies. One column on a grid (accuracies of 16
    samples are sixteenths): the law of the sum is computed, and drawn from. Few distinct rows: their counts are drawn
    from the multinomial distribution. Else: n indices a resample.
    """
    rows = values.reshape(len(values), -1)
    n = len(rows)
    distinct, counts = _distinct(rows)
    law = _law_on_a_grid(distinct[:, 0], counts) if rows.shape[1] == 1 else None
    if law is not None:
        support, cumulative = law
        means = support[np.searchsorted(cumulative, rng.random(resamples) * cumulative[-1], side="right")][:, None]
    elif len(distinct) * _SPARSE <= n:
        drawn = rng.multinomial(n, counts / n, size=resamples)
        means = (drawn @ distinct) / n
    else:
        means = np.empty((resamples, rows.shape[1]))
        for start in range(0, resamples, _CHUNK):
            size = min(_CHUNK, resamples - start)
            index = rng.integers(0, n, (size, n))
            for column in range(rows.shape[1]):
                means[start : start + size, column] = rows[:, column][index].mean(axis=1)
    return means[:, 0] if values.ndim == 1 else means


def _law_on_a_grid(distinct: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The law of the mean of n draws from values that are whole multiples of one step apart: (support, cumulative
    probabilities), from the n-th power of the characteristic function. None where there is no coarse grid.

    ``distinct`` values and how often each occurs. Rounding leaves errors of 1e-15 in the probabilities.
    """
    order = np.argsort(distinct)
    points, weights = distinct[order], counts[order]
    n = int(weights.sum())
    if len(points) < 2:
        return None
    cells = round(float((points[-1] - points[0]) / np.diff(points).min()))
    if cells > _GRID or n * cells >= _SUPPORT:
        return None
    place = (points - points[0]) / (points[-1] - points[0]) * cells
    if np.abs(place - np.round(place)).max() > _ON_GRID:
        return None
    size = 1 << (n * cells).bit_length()
    single = np.zeros(size)
    single[np.round(place).astype(int)] = weights / n
    probabilities = np.maximum(np.fft.irfft(_power(np.fft.rfft(single), n), size), 0.0)[: n * cells + 1]
    support = points[0] + (points[-1] - points[0]) / cells * np.arange(n * cells + 1) / n
    return support, np.cumsum(probabilities)


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """By repeated squaring: NumPy's power of complex numbers takes logarithms."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        base, exponent = base * base, exponent >> 1
    return result


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rare rows first: the conditional binomial draws of the multinomial are then cheapest."""
    if rows.shape[1] == 1:
        distinct, counts = np.unique(rows[:, 0], return_counts=True)
        distinct = distinct[:, None]
    else:
        distinct, counts = np.unique(rows, axis=0, return_counts=True)
    order = np.argsort(counts, kind="stable")
    return distinct[order], counts[order]


def mean_over_questions(
    values: np.ndarray | list[float],
    key: tuple[object, ...],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    method: str = "percentile",
) -> Interval:
    """Bootstrap over questions. ``values`` [n questions]: the mean over the samples of each question, which stay
    together. ``key`` names the cell and seeds its generator.

    ``method``: ``percentile`` (the paper's) or ``bca`` (bias-corrected, accelerated), the latter only where it is
    valid: at least 20 questions, a spread, resamples on both sides of the estimate; elsewhere percentile and a note.
    """
    values = _finite(values)
    n = len(values)
    if n == 0:
        return _points_only(math.nan, 0, level, "no questions")
    mean = float(values.mean())
    if n < 3:
        return _points_only(mean, n, level, f"n = {n}: points only")
    if values.min() == values.max():
        return Interval(mean, mean, mean, n, level, "bootstrap of questions", "all questions have the same value")
    means = resampled_means(values, generator_for("questions", *key), resamples)
    tails = np.array([(1 - level) / 2, (1 + level) / 2])
    name, note = f"bootstrap of questions, percentile, {resamples} resamples", ""
    if method == "bca":
        corrected, note = _bca_tails(values, means, mean, tails)
        if corrected is not None:
            tails, name = corrected, f"bootstrap of questions, BCa, {resamples} resamples"
    elif method != "percentile":
        raise ValueError(f"method {method!r} must be percentile or bca")
    low, high = np.quantile(means, tails)
    return Interval(mean, float(low), float(high), n, level, name, note)


def _bca_tails(values: np.ndarray, means: np.ndarray, mean: float, tails: np.ndarray) -> tuple[np.ndarray | None, str]:
    """Efron (1987). The jackknife of a mean is known in closed form: acceleration = skewness / (6 sqrt n)."""
    n = len(values)
    if n < BCA_MINIMUM:
        return None, f"n = {n} is too small for BCa"
    below = (np.count_nonzero(means < mean) + np.count_nonzero(means == mean) / 2) / len(means)
    if not 0 < below < 1:
        return None, "all resamples lie on one side: BCa is not defined"
    bias = normal_quantile(below)
    centred = values - mean
    acceleration = (centred**3).sum() / (6 * (centred**2).sum() ** 1.5)
    z = normal_quantile(tails)
    return normal_probability(bias + (bias + z) / (1 - acceleration * (bias + z))), ""


def paired_over_questions(
    first: np.ndarray | list[float],
    second: np.ndarray | list[float],
    key: tuple[object, ...],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Interval:
    """Interval of mean(first - second) over the same questions in the same order; each question is drawn with both."""
    first, second = _finite(first), _finite(second)
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} questions cannot be paired")
    return mean_over_questions(first - second, ("paired", *key), level=level, resamples=resamples)


def mean_over_seeds_and_questions(
    values: np.ndarray, key: tuple[object, ...], *, level: float = LEVEL, resamples: int = RESAMPLES
) -> Interval:
    """Two-level bootstrap of the grand mean. ``values`` [S seeds, n questions], the same questions for every seed.

    Seeds are drawn, and questions are drawn, and a resample is the mean over the drawn rows and columns (Owen 2007,
    Annals of Applied Statistics 1(2)). Questions are drawn once for all seeds: they are the same questions, and drawing
    them anew for each seed would average away that some questions are harder than others.
    """
    values = np.asarray(values, float)
    seeds, n = values.shape
    mean = float(values.mean())
    if not np.isfinite(values).all():
        raise ValueError("values must be finite")
    if seeds < 3 or n < 3:
        return _points_only(mean, seeds, level, f"{seeds} seeds, {n} questions: points only")
    rng = generator_for("seeds and questions", *key)
    by_seed = resampled_means(values.T, rng, resamples)
    weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
    low, high = np.quantile((by_seed * weights).sum(axis=1), [(1 - level) / 2, (1 + level) / 2])
    name = f"two-level bootstrap, seeds then questions, {resamples} resamples"
    return Interval(
        mean,
        float(low),
        float(high),
        seeds,
        level,
        name,
        f"few seeds: too narrow by about {1 - math.sqrt((seeds - 1) / seeds):.0%} in the part due to seeds"
        if seeds < 10
        else "",
    )


def curve_band(
    curves: Mapping[str, pd.Series],
    key: tuple[object, ...],
    *,
    statistic: str = "median",
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> pd.DataFrame:
    """Band of the ``median`` or ``mean`` over runs, each run resampled as a whole -> step, estimate, low, high, n.

    The band is pointwise: it holds at each step, not for the whole curve at once. Only steps that every run has
    logged. Below n = 3 low and high are NaN. Up to 7 runs all bootstrap samples are enumerated with their
    probabilities; beyond that ``resamples`` are drawn.
    """
    if statistic not in ("median", "mean"):
        raise ValueError(f"statistic {statistic!r} must be median or mean")
    names = sorted(curves)
    table = pd.DataFrame({name: curves[name] for name in names}).dropna(how="any").sort_index()
    values = table.to_numpy(float)  # [steps, runs]
    n = len(names)
    over = np.median if statistic == "median" else np.mean
    estimate = over(values, axis=1) if n and len(values) else np.full(len(values), np.nan)
    low, high = np.full(len(values), np.nan), np.full(len(values), np.nan)
    if n >= 3 and len(values):
        picks, weights = _samples_of_runs(n, key, resamples)
        draws = over(values[:, picks], axis=2)  # [steps, samples]
        low, high = _weighted_quantiles(draws, weights, ((1 - level) / 2, (1 + level) / 2))
    return pd.DataFrame({"step": table.index.to_numpy(int), "estimate": estimate, "low": low, "high": high, "n": n})


def _samples_of_runs(n: int, key: tuple[object, ...], resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap samples of n runs as indices [samples, n], and the probability of each."""
    if n > ENUMERATE_UP_TO:
        picks = generator_for("curve", *key).integers(0, n, (resamples, n))
        return picks, np.full(resamples, 1 / resamples)
    picks = np.array(list(itertools.combinations_with_replacement(range(n), n)))
    counts = np.array([np.bincount(row, minlength=n) for row in picks])
    factorials = np.array([math.factorial(count) for count in range(n + 1)], dtype=float)
    return picks, math.factorial(n) / factorials[counts].prod(axis=1) / n**n


def _weighted_quantiles(
    draws: np.ndarray, weights: np.ndarray, tails: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper quantile of each row: the smallest value whose cumulative weight reaches the tail."""
    order = np.argsort(draws, axis=1, kind="stable")
    ordered = np.take_along_axis(draws, order, axis=1)
    cumulative = np.cumsum(weights[order], axis=1)
    last = draws.shape[1] - 1
    bounds = []
    for tail in tails:
        index = np.minimum((cumulative < tail - 1e-12).sum(axis=1), last)
        bounds.append(np.take_along_axis(ordered, index[:, None], axis=1)[:, 0])
    return bounds[0], bounds[1]


def _finite(values: np.ndarray | list[float]) -> np.ndarray:
    array = np.asarray(values, float).ravel()
    if not np.isfinite(array).all():
        raise ValueError(f"{np.count_nonzero(~np.isfinite(array))} of {array.size} values are missing or infinite")
    return array

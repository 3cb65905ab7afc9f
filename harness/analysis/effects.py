"""Effect sizes with intervals, and how many seeds an effect of that size takes."""

from __future__ import annotations

import contextlib
import math
from typing import Final

import numpy as np

from harness.analysis.distributions import t_quantile
from harness.analysis.intervals import LEVEL, Interval

POWER: Final = 0.8
ALPHA: Final = 0.05
MOST_SEEDS: Final = 10_000


def difference_of_means(first: np.ndarray, second: np.ndarray, *, level: float = LEVEL) -> Interval:
    """mean(first) - mean(second) with Welch's t interval. Points only below 2 runs a side or without any spread."""
    difference = float(np.mean(first) - np.mean(second)) if len(first) and len(second) else math.nan
    n = len(first) + len(second)
    if len(first) < 2 or len(second) < 2:
        return Interval(difference, math.nan, math.nan, n, level, "none", "fewer than 2 runs on a side")
    parts = np.var(first, ddof=1) / len(first), np.var(second, ddof=1) / len(second)
    error = math.sqrt(sum(parts))
    if error == 0:
        return Interval(difference, math.nan, math.nan, n, level, "none", "no spread on either side")
    df = sum(parts) ** 2 / (parts[0] ** 2 / (len(first) - 1) + parts[1] ** 2 / (len(second) - 1))
    half = t_quantile(df, (1 + level) / 2) * error
    return Interval(difference, difference - half, difference + half, n, level, f"Welch t, {df:.1f} df")


def paired_difference(differences: np.ndarray, *, level: float = LEVEL) -> Interval:
    """Mean of paired differences with Student's t interval. Points only below 3 pairs or without any spread."""
    d = np.asarray(differences, float)
    mean = float(d.mean()) if len(d) else math.nan
    if len(d) < 3:
        return Interval(mean, math.nan, math.nan, len(d), level, "none", f"{len(d)} pairs: points only")
    error = float(d.std(ddof=1)) / math.sqrt(len(d))
    if error == 0:
        return Interval(mean, math.nan, math.nan, len(d), level, "none", "all differences are equal")
    half = t_quantile(len(d) - 1, (1 + level) / 2) * error
    return Interval(mean, mean - half, mean + half, len(d), level, f"paired t, {len(d) - 1} df")


def standardised(first: np.ndarray, second: np.ndarray, *, level: float = LEVEL) -> Interval:
    """Hedges' g: the difference over the pooled sample SD, times the small-sample correction; the interval inverts the
    noncentral t distribution. Points only below 2 runs a side or without any spread."""
    n, m = len(first), len(second)
    df = n + m - 2
    if n < 2 or m < 2:
        return Interval(math.nan, math.nan, math.nan, n + m, level, "none", "fewer than 2 runs on a side")
    pooled = math.sqrt(((n - 1) * np.var(first, ddof=1) + (m - 1) * np.var(second, ddof=1)) / df)
    if pooled == 0:
        return Interval(math.nan, math.nan, math.nan, n + m, level, "none", "no spread on either side")
    d = float(np.mean(first) - np.mean(second)) / pooled
    return _from_noncentral(d, math.sqrt(n * m / (n + m)), df, n + m, level, "Hedges' g, noncentral t")


def standardised_paired(differences: np.ndarray, *, level: float = LEVEL) -> Interval:
    """Mean difference over the SD of the differences (g_z), corrected and inverted as in :func:`standardised`."""
    d = np.asarray(differences, float)
    n = len(d)
    if n < 3 or d.std(ddof=1) == 0:
        return Interval(math.nan, math.nan, math.nan, n, level, "none", "fewer than 3 pairs or no spread")
    z = float(d.mean() / d.std(ddof=1))
    return _from_noncentral(z, math.sqrt(n), n - 1, n, level, "g of paired differences, noncentral t")


def _from_noncentral(d: float, scale: float, df: int, n: int, level: float, method: str) -> Interval:
    t = d * scale
    bounds = [_noncentrality(t, df, (1 + level) / 2), _noncentrality(t, df, (1 - level) / 2)]
    correction = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2) if df > 1 else 1
    low, high = (bound / scale * correction for bound in bounds)
    return Interval(d * correction, low, high, n, level, method)


def _noncentrality(t: float, df: int, tail: float) -> float:
    """Noncentrality at which ``t`` is the ``tail`` quantile; NaN when it lies beyond what can be computed."""
    from scipy import optimize, stats

    if t < 0:  # scipy's noncentral t gives NaN far in the left tail, where its mirror image is computable
        return -_noncentrality(-t, df, 1 - tail)

    def gap(delta: float) -> float:
        return float(stats.nct.cdf(t, df, delta)) - tail

    for reach in (4.0, 8.0, 16.0, 32.0):  # far from t the noncentral t distribution underflows: do not go there first
        low, high = t - reach * (1 + abs(t) / 8), t + reach * (1 + abs(t) / 8)
        below, above = gap(low), gap(high)
        if math.isfinite(below) and math.isfinite(above) and below * above < 0:
            with contextlib.suppress(ValueError):  # not computable somewhere in between
                return float(optimize.brentq(gap, low, high))
    return math.nan


def seeds_needed(effect: float, *, paired: bool, power: float = POWER, alpha: float = ALPHA) -> int | None:
    """Smallest number of seeds (pairs, or runs a method) at which a two-sided t test at ``alpha`` has ``power`` for a
    true standardised ``effect``. None for no effect or more than 10,000.

    At a true effect equal to the observed one: an observed effect of few runs is itself uncertain, and tends to be too
    large where it was picked for being large.
    """
    if not math.isfinite(effect) or effect == 0:
        return None
    low, high = 2, 4
    while _power(abs(effect), high, paired, alpha) < power:
        low, high = high, high * 2
        if high > 2 * MOST_SEEDS:
            return None
    while low < high:
        middle = (low + high) // 2
        if _power(abs(effect), middle, paired, alpha) >= power:
            high = middle
        else:
            low = middle + 1
    return low if low <= MOST_SEEDS else None


def _power(effect: float, n: int, paired: bool, alpha: float) -> float:
    from scipy import stats

    df = n - 1 if paired else 2 * n - 2
    delta = effect * math.sqrt(n if paired else n / 2)
    critical = t_quantile(df, 1 - alpha / 2)
    if delta > 30:  # the far tail of the noncentral t is not computable, nor needed
        return 1.0
    return float(stats.nct.sf(critical, df, delta) + stats.nct.cdf(-critical, df, delta))

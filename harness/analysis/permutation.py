"""Exact permutation tests for small numbers of runs, and Holm's correction over a table of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.analysis.seeding import generator_for

EXACT_UP_TO: Final = 20_000
DRAWS: Final = 20_000
_TIE: Final = 1e-12


@dataclass(frozen=True)
class Permutation:
    """Two-sided ``p``; ``smallest_p`` is what the most extreme data of this size would give.

    ``p_less`` and ``p_greater`` are one-sided, for a direction stated before the data were seen: small ``p_less``
    speaks for first < second.
    """

    p: float
    smallest_p: float
    permutations: int
    exact: bool
    p_less: float = math.nan
    p_greater: float = math.nan


def sign_flip_test(differences: np.ndarray, key: tuple[object, ...]) -> Permutation:
    """Paired: the sign of each difference is exchangeable under the null. All 2^n signs up to n = 14, else drawn.

    Differences that are exactly zero stay in the mean; they can't be flipped, so only the others count in
    ``smallest_p``. No pairs: p is NaN.
    """
    d = np.asarray(differences, float)
    if len(d) == 0:
        return Permutation(math.nan, math.nan, 0, True)
    exact = 2 ** len(d) <= EXACT_UP_TO
    if exact:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(d))))
    else:
        signs = generator_for("signs", *key).choice((1.0, -1.0), (DRAWS, len(d)))
    movable = int(np.count_nonzero(d))
    smallest = min(1.0, 2.0 / 2**movable) if exact else 1 / (DRAWS + 1)
    return _result(signs @ d, float(d.sum()), float(np.abs(d).sum()), exact, smallest)


def exchange_test(
    first: np.ndarray,
    second: np.ndarray,
    key: tuple[object, ...],
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> Permutation:
    """Unpaired: labels are exchangeable under the null. All C(n + m, n) labellings up to 20,000, else drawn.

    ``statistic(first [P, n], second [P, m]) -> [P]``, two-sided in its absolute value; the difference of means if none.
    """
    statistic = statistic or _difference_of_means
    n, total = len(first), len(first) + len(second)
    pooled = np.concatenate([np.asarray(first, float), np.asarray(second, float)])
    if n == 0 or n == total:
        return Permutation(math.nan, math.nan, 0, True)
    count = math.comb(total, n)
    exact = count <= EXACT_UP_TO
    if exact:
        picks = np.array(list(itertools.combinations(range(total), n)))
    else:
        picks = np.argsort(generator_for("labels", *key).random((DRAWS, total)), axis=1)[:, :n]
    chosen = np.zeros((len(picks), total), bool)
    chosen[np.arange(len(picks))[:, None], picks] = True
    order = np.argsort(~chosen, axis=1, kind="stable")
    values = pooled[order]
    draws = statistic(values[:, :n], values[:, n:])
    observed = float(statistic(pooled[None, :n], pooled[None, n:])[0])
    smallest = (2 if 2 * n == total else 1) / count if exact else 1 / (DRAWS + 1)
    return _result(draws, observed, float(np.abs(pooled).sum()), exact, smallest)


def _difference_of_means(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    difference: np.ndarray = first.mean(axis=1) - second.mean(axis=1)
    return difference


def _result(draws: np.ndarray, observed: float, scale: float, exact: bool, smallest: float) -> Permutation:
    """Ties up to rounding count as at least as extreme. Drawn permutations count the observed one as well."""
    margin = _TIE * max(scale, 1.0)

    def share(extreme: np.ndarray) -> float:
        count = int(np.count_nonzero(extreme))
        return count / len(draws) if exact else (count + 1) / (len(draws) + 1)

    return Permutation(
        p=share(np.abs(draws) >= abs(observed) - margin),
        smallest_p=smallest,
        permutations=len(draws),
        exact=exact,
        p_less=share(draws <= observed + margin),
        p_greater=share(draws >= observed - margin),
    )


def trend_test(values: np.ndarray, levels: np.ndarray, key: tuple[object, ...]) -> Permutation:
    """Jonckheere-Terpstra: do ``values`` [n] rise with ``levels`` [n]? All n! orders up to n = 7, else 20,000 drawn.

    ``p_greater`` is small for a rising trend, ``p_less`` for a falling one. Fewer than two levels: NaN.
    """
    values, levels = np.asarray(values, float), np.asarray(levels, float)
    if len(np.unique(levels)) < 2:
        return Permutation(math.nan, math.nan, 0, True)
    n = len(values)
    exact = n <= 7
    if exact:
        orders = np.array(list(itertools.permutations(range(n))))
    else:
        orders = np.argsort(generator_for("trend", *key).random((DRAWS, n)), axis=1)
    first, second = np.nonzero(levels[:, None] < levels[None, :])

    def statistic(arranged: np.ndarray) -> np.ndarray:
        counts: np.ndarray = np.sign(arranged[:, second] - arranged[:, first]).sum(axis=1)
        return counts

    draws, observed = statistic(values[orders]), float(statistic(values[None, :])[0])
    extreme = float(np.abs(draws).max())
    smallest = float((np.abs(draws) >= extreme).mean()) if exact else 1 / (DRAWS + 1)
    return _result(draws, observed, float(len(first)), exact, smallest)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p-values (1979), in the order given. NaN stays NaN and does not count as a test."""
    p = np.asarray(p_values, float)
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, float(p[index]) * (len(order) - rank)))
        adjusted[index] = running
    return [float(value) for value in adjusted]

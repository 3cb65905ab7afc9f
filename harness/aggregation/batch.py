"""A rollout batch: checked rewards with the responses of a group side by side, and its group statistics.

Every method works on a :class:`Batch`. It knows nothing of weights, methods or the final normalisation.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.aggregation import inputs
from harness.aggregation.density import EPS, TAU, Bools, Floats

CONSTANT = 1e-12
"""Values of a group that span no more than this share of their size are constant: rounding, no signal."""


class Batch:
    """N responses with at least one reward, in B groups, on K channels. Made by :func:`prepare`; arrays are read-only.

    channels: the K names.  labels: the B group labels in order of first appearance.
    rewards [N, K]: float64, NaN where missing.  present [N, K]: where it is not.
    sizes [B], starts [B]: group i is rows ``starts[i] : starts[i] + sizes[i]``.  lengths [N]: valid tokens, or None.
    positions [N]: which of the caller's ``total`` responses each row is.
    """

    def __init__(
        self,
        channels: tuple[str, ...],
        labels: list[Hashable],
        rewards: Floats,
        present: Bools | None,
        sizes: NDArray[np.intp],
        lengths: Floats | None,
        positions: NDArray[np.intp] | None,
        total: int,
    ) -> None:
        self.channels = channels
        self.labels = labels
        self.rewards = _locked(rewards)
        self.sizes = _locked(sizes)
        self.starts = _locked(np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp))
        self.lengths = None if lengths is None else _locked(lengths)
        self.total = total
        self._positions = positions
        self._present = present
        self._filled = rewards if present is None else np.where(present, rewards, 0.0)
        self._cache: dict[Any, Floats] = {}
        self._measure()

    def _measure(self) -> None:
        """Per group and channel [B, K]: how many rewards are present, their mean, whether constant; deviations [N, K].

        Deviations are taken from the group's least value first, which is exact, so a large common offset costs nothing.
        """
        low = high = self.rewards
        counts = np.broadcast_to(self.sizes[:, None].astype(np.float64), (len(self.sizes), len(self.channels)))
        if self._present is not None:
            low = np.where(self._present, self.rewards, np.inf)
            high = np.where(self._present, self.rewards, -np.inf)
            counts = self.group_sum(self._present.astype(np.float64))
        low, high = self.group_min(low), self.group_max(high)
        self.counts: Floats = counts
        size = np.maximum(np.abs(low), np.abs(high))
        with np.errstate(invalid="ignore"):
            self.constant: Bools = (counts < 2) | (high - low <= CONSTANT * size)
        base = np.where(counts > 0, low, 0.0)
        above = self.rewards - self.spread(base)
        if self._present is not None:
            above[~self._present] = 0.0
        mean_above = self.group_sum(above) / np.maximum(counts, 1)
        self.means: Floats = base + mean_above
        deviations = above - self.spread(mean_above)
        if self._present is not None:
            deviations[~self._present] = 0.0
        deviations[self.spread(self.constant)] = 0.0
        self.deviations: Floats = _locked(deviations)

    @property
    def present(self) -> Bools:
        return np.ones(self.rewards.shape, dtype=bool) if self._present is None else self._present

    @property
    def positions(self) -> NDArray[np.intp]:
        return np.arange(self.total) if self._positions is None else self._positions

    @property
    def left_out(self) -> int:
        """How many of the caller's responses had no reward at all."""
        return self.total - len(self.rewards)

    @property
    def missing(self) -> NDArray[np.intp]:
        """Missing rewards of each channel [K], those of left-out responses included."""
        if self._present is None:
            return np.full(len(self.channels), self.left_out)
        return self.total - self._present.sum(axis=0)

    def group_sum(self, values: Floats) -> Floats:
        """Sums over each group: [N] -> [B], [N, K] -> [B, K]."""
        return self._reduce(np.add, values)

    def group_min(self, values: Floats) -> Floats:
        return self._reduce(np.minimum, values)

    def group_max(self, values: Floats) -> Floats:
        return self._reduce(np.maximum, values)

    def _reduce(self, operation: np.ufunc, values: Floats) -> Floats:
        return np.asarray(operation.reduceat(values.T, self.starts, axis=-1)).T

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value per group to each of its responses: [B] -> [N], [B, K] -> [N, K]."""
        return np.repeat(values.T, self.sizes, axis=-1).T

    def std(self, ddof: int = 1) -> Floats:
        """Standard deviation of each channel in each group [B, K], over present rewards; 0 where it is constant."""
        return np.sqrt(self._squares() / np.maximum(self.counts - ddof, 1))

    def _squares(self) -> Floats:
        if "squares" not in self._cache:
            self._cache["squares"] = self.group_sum(self.deviations * self.deviations)
        return self._cache["squares"]

    def advantages(self, eps: float = EPS, ddof: int = 1) -> Floats:
        """A [N, K] = (r - group mean) / (group std + eps), read-only.

        Exactly 0 where the channel is constant in the group, has fewer than two rewards there, or is missing."""
        key = ("advantages", float(eps), int(ddof))
        if key not in self._cache:
            divisor = self.std(ddof) + eps
            divisor[divisor == 0.0] = 1.0
            self._cache[key] = _locked(self.deviations / self.spread(divisor))
        return self._cache[key]

    def active(self, advantages: Floats | None = None, tau: float = TAU) -> Bools:
        """Where a channel tells the responses of a group apart [B, K]: not constant, and sum |A| > tau (Eq. 3)."""
        chosen = self.advantages() if advantages is None else advantages
        return (self.group_sum(np.abs(chosen)) > tau) & ~self.constant

    def summed(self, weights: Floats | None = None) -> Floats:
        """R - mean of R in the group [N], for the (weighted) sum R of the channels; exactly 0 where R is constant.

        A missing reward adds nothing, as though it were the group's mean: R then neither rewards nor punishes it."""
        scaled = np.ones(len(self.channels)) if weights is None else weights
        centred = self.deviations @ scaled
        return self.without_constant(centred, np.abs(self._filled) @ np.abs(scaled))

    def without_constant(self, values: Floats, size: Floats) -> Floats:
        """``values`` [N], 0 in each group where they span no more than rounding errors of numbers of ``size`` [N]."""
        width = self.group_max(values) - self.group_min(values)
        constant = width <= CONSTANT * self.group_max(size)
        return np.where(self.spread(constant), 0.0, values)

    def standardised(self, values: Floats, eps: float, ddof: int) -> Floats:
        """(x - mean) / (std + eps) in each group, for values [N]; 0 in a group of one."""
        sizes = self.sizes.astype(np.float64)
        centred = values - self.spread(self.group_sum(values) / sizes)
        divisor = np.sqrt(self.group_sum(centred * centred) / np.maximum(sizes - ddof, 1)) + eps
        divisor[divisor == 0.0] = 1.0
        return centred / self.spread(divisor)

    def scatter(self, values: Floats) -> Floats:
        """From the batch's rows back to the caller's responses, 0 for those left out: [N, ...] -> [total, ...]."""
        if self._positions is None:
            return np.array(values)
        result = np.zeros((self.total, *values.shape[1:]))
        result[self._positions] = values
        return result


def prepare(rewards: Any, groups: Any, *, channels: Sequence[str], lengths: Any = None) -> Batch:
    """Check the caller's arrays and lay them out as a :class:`Batch`; arguments as in :func:`aggregate`.

    A group of one response is allowed here (its advantages are 0), also when every group is one."""
    names = inputs.channel_names(channels)
    matrix = inputs.reward_matrix(rewards, names)
    total = len(matrix)
    if total == 0:
        raise ValueError("the batch is empty: rewards holds no response")
    codes, labels = inputs.group_codes(groups, total)
    tokens = inputs.token_counts(lengths, total)
    present = _checked(matrix, names, codes, labels)
    positions: NDArray[np.intp] | None = None
    if present is not None:
        positions = np.flatnonzero(present.any(axis=1))
        if len(positions) == 0:
            raise ValueError(f"no response of the batch has a reward on any channel ({', '.join(names)})")
        codes, labels = _relabelled(codes[positions], labels)
    if (codes[1:] < codes[:-1]).any():
        order = np.argsort(codes, kind="stable")
        positions = order if positions is None else positions[order]
    if positions is not None:
        matrix = np.array([column[positions] for column in matrix.T]).T
        present = None if present is None else present[positions]
        tokens = None if tokens is None else tokens[positions]
    sizes = np.bincount(codes, minlength=len(labels))
    return Batch(names, labels, matrix, present, sizes, tokens, positions, total)


def _checked(matrix: Floats, names: tuple[str, ...], codes: NDArray[np.intp], labels: list[Hashable]) -> Bools | None:
    """Which rewards are present, None for all; an infinite or absurdly large one is an error."""
    with np.errstate(invalid="ignore"):
        wrong = np.abs(matrix) > inputs.LARGEST
    if wrong.any():
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        raise ValueError(
            f"reward {matrix[row, column]} of channel {names[column]!r} in group {labels[codes[row]]!r} "
            f"(response {row}) is not a finite number below {inputs.LARGEST:g}; use NaN or None for a missing reward"
        )
    missing = np.isnan(matrix)
    return ~missing if missing.any() else None


def _relabelled(codes: NDArray[np.intp], labels: list[Hashable]) -> tuple[NDArray[np.intp], list[Hashable]]:
    """Codes and labels of the groups that still have a response, in their order of first appearance among those."""
    left, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[codes], [labels[row] for row in left[order]]


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array

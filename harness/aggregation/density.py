"""Active-group density, advantage energy and the weights DARA derives from them (arXiv 2610.00574, Eq. 3-6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

EPS = 1e-6
"""Added to a group's standard deviation before dividing by it (the value verl uses)."""

TAU = 1e-8
"""A group is active for a channel when the absolute advantages sum to more than this."""


def density(active: Bools) -> Floats:
    """Share of groups in which each channel is active: [B, K] -> [K] (Eq. 3). Every group counts, also one of a
    single response, which is never active."""
    return active.mean(axis=0, dtype=np.float64)


def energy(advantages: Floats) -> Floats:
    """Sum of squared advantages of each channel: [N, K] -> [K] (Eq. 4).

    With eps = tau = 0 and ddof 1 this is ``B * density * (G - 1)`` for groups of G responses (Eq. 5)."""
    return np.asarray([column @ column for column in advantages.T], dtype=np.float64)


def density_weights(density: ArrayLike, w_max: float) -> tuple[Floats, Bools]:
    """DARA's weights omega [K] and whether the cap bound each of them [K] (Eq. 6).

    ``omega_k = min(w_max, sqrt(max(density) / density_k))``; 1 where the density is 0, and all 1 when every channel
    is inactive. ``w_max=inf`` means no cap; below 1 is an error."""
    if not w_max >= 1:
        raise ValueError(f"w_max is {w_max!r}, but the cap must be at least 1 (inf for no cap)")
    shares = np.asarray(density, dtype=np.float64)
    alive = shares > 0
    wanted = np.ones_like(shares)
    if alive.any():
        wanted[alive] = np.sqrt(shares.max() / shares[alive])
    return np.minimum(wanted, w_max), wanted > w_max


def expected_density(p: ArrayLike, group_size: ArrayLike) -> Floats:
    """Probability q_G(p) = 1 - p^G - (1-p)^G that a group of G holds both outcomes of a binary reward (Eq. 34).

    ``p`` (success probability per response, in [0, 1]) and ``group_size`` (G >= 1) broadcast. Exact to rounding also
    for tiny p. Averaging q over prompts gives the expected density; q of the average p overestimates it (Jensen)."""
    success = np.asarray(p, dtype=np.float64)
    size = np.asarray(group_size, dtype=np.float64)
    outside = ~((success >= 0) & (success <= 1))
    if outside.any():
        raise ValueError(f"p is {success[outside].flat[0]}, but a probability lies in [0, 1]")
    fractional = ~((size >= 1) & (size == np.floor(size)))
    if fractional.any():
        raise ValueError(f"group size is {size[fractional].flat[0]}, but it must be a whole number of at least 1")
    with np.errstate(divide="ignore"):
        any_success = -np.expm1(size * np.log1p(-success))
    return np.asarray(np.maximum(any_success - success**size, 0.0))

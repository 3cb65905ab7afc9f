"""The theory behind density and energy, computed and checked by simulation with its Monte Carlo error.

Each check draws from a generator of its own, so that one does not change another. A quantity that is an expectation is
compared with the mean of its simulation in units of the standard error; an identity or inequality is checked on every
drawn batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.aggregation import aggregate_batch, expected_density, prepare

Floats = NDArray[np.float64]
SEED = 20260101
SIGMAS = 4.0
"""A simulated mean that is off by more standard errors than this contradicts the formula."""


@dataclass(frozen=True)
class Simulated:
    """The mean of ``draws`` simulated values beside the formula's, and its standard error (0 for an exact check, where
    ``mean`` is the worst of all draws)."""

    name: str
    formula: float
    mean: float
    error: float
    draws: int

    @property
    def holds(self) -> bool:
        return abs(self.mean - self.formula) <= SIGMAS * self.error + 1e-9


def generator(check: str) -> np.random.Generator:
    return np.random.default_rng([SEED, *check.encode()])


def density_curve(p: Floats, group_size: int) -> Floats:
    """q_G(p), the probability that a group of G holds both outcomes."""
    return expected_density(p, group_size)


def gain(p: Floats, group_size: int) -> Floats:
    """q_{G+1}(p) - q_G(p) = p^G (1-p) + (1-p)^G p, never negative: a larger group is active at least as often."""
    return p**group_size * (1 - p) + (1 - p) ** group_size * p


def simulated_density(p: float, group_size: int, groups: int = 20_000) -> Simulated:
    """How often a group of G binary rewards with success rate p varies."""
    rng = generator(f"density {p} {group_size}")
    wins = rng.binomial(group_size, p, size=groups)
    active = (wins > 0) & (wins < group_size)
    formula = float(expected_density(p, group_size))
    return Simulated(
        f"q_{group_size}({p:g})", formula, float(active.mean()), math.sqrt(formula * (1 - formula) / groups), groups
    )


def beta_density(a: float, b: float, group_size: int) -> float:
    """E q_G(p) for prompts whose success rates p are Beta(a, b): 1 - E p^G - E (1-p)^G."""

    def power(first: float, second: float) -> float:
        return math.prod((first + i) / (first + second + i) for i in range(group_size))

    return 1 - power(a, b) - power(b, a)


def simulated_jensen(spread: float, group_size: int, prompts: int = 20_000) -> Simulated:
    """Density over prompts with rates of mean 1/2 drawn from Beta(1/spread, 1/spread): the formula is its expectation.
    The gap to q_G(1/2) is Jensen's."""
    rng = generator(f"jensen {spread} {group_size}")
    rates = rng.beta(1 / spread, 1 / spread, size=prompts)
    wins = rng.binomial(group_size, rates)
    active = (wins > 0) & (wins < group_size)
    formula = beta_density(1 / spread, 1 / spread, group_size)
    error = math.sqrt(formula * (1 - formula) / prompts)
    return Simulated(f"E q_{group_size}, spread {spread:g}", formula, float(active.mean()), error, prompts)


def energy_pairs(draws: int = 60) -> Floats:
    """[draws, 2]: B pi (G - 1) and the energy E of random batches of random size, eps = 0."""
    rng = generator("energy")
    pairs = []
    for _ in range(draws):
        groups, size = int(rng.integers(4, 65)), int(rng.integers(2, 17))
        rewards = rng.random((groups * size, 1)) < rng.random()
        if rng.random() < 0.5:
            rewards = rewards * rng.normal(size=rewards.shape)
        batch = prepare(rewards, np.repeat(np.arange(groups), size), channels=["r"])
        found = aggregate_batch("gdpo", batch, eps=0.0)
        pairs.append((groups * found.density["r"] * (size - 1), found.energy["r"]))
    return np.array(pairs)


def asym_energies(advantages: Floats, weight: float) -> tuple[float, float, float, float, float]:
    """The chain of arXiv 2610.00574, Eq. 37, for one channel's advantages [N] and one weight w >= 1:
    E <= E + 2(w-1) E+ <= energy after Asym and centring <= E + (w^2-1) E+ <= w^2 E. The middle one is computed from
    the transformed advantages, not from a formula."""
    positive = np.maximum(advantages, 0.0)
    e, e_plus = float(advantages @ advantages), float(positive @ positive)
    changed = advantages + (weight - 1) * positive
    centred = changed - changed.mean()
    return (
        e,
        e + 2 * (weight - 1) * e_plus,
        float(centred @ centred),
        e + (weight**2 - 1) * e_plus,
        weight**2 * e,
    )


def asym_chains(weights: Floats, draws: int = 200, density: float = 0.2) -> Floats:
    """[weights, draws, 5]: the chain on random sparse binary batches, divided by E; each batch with all weights."""
    rng = generator("asym")
    found = np.empty((len(weights), draws, 5))
    for draw in range(draws):
        advantages = np.zeros(0)
        while not advantages.any():
            rates = np.where(rng.random(64) < density, rng.random(64), 1.0)
            rewards = (rng.random((64, 8)) < rates[:, None]).reshape(-1, 1)
            batch = prepare(rewards, np.repeat(np.arange(64), 8), channels=["r"])
            advantages = batch.advantages(eps=0.0)[:, 0]
        for place, weight in enumerate(weights.tolist()):
            chain = asym_energies(advantages, weight)
            found[place, draw] = np.array(chain) / chain[0]
    return found


def sym_spread(draws: int = 60) -> float:
    """Largest relative difference, over random batches, between the energies of active channels after Sym without a
    cap: they are equal for eps = 0."""
    rng = generator("sym")
    worst = 0.0
    for _ in range(draws):
        groups, size = int(rng.integers(8, 65)), int(rng.integers(2, 9))
        rewards = rng.random((groups * size, 3)) < rng.random(3)
        batch = prepare(rewards, np.repeat(np.arange(groups), size), channels=["a", "b", "c"])
        found = aggregate_batch("dara_sym", batch, eps=0.0, w_max=math.inf)
        after = [found.energy[n] * found.weights[n] ** 2 for n in found.energy if found.density[n] > 0]
        if after:
            worst = max(worst, max(after) / min(after) - 1)
    return worst


def checks() -> list[Simulated]:
    """Every formula against its simulation; exact ones with error 0 and the worst deviation of all draws."""
    found = [simulated_density(p, g) for g in (2, 4, 8, 16) for p in (0.05, 0.2, 0.5, 0.9)]
    found += [simulated_jensen(s, g) for g in (4, 16) for s in (0.25, 1.0, 4.0)]
    p = np.linspace(0, 1, 201)
    worst = max(float(np.abs(density_curve(p, g + 1) - density_curve(p, g) - gain(p, g)).max()) for g in range(1, 64))
    found.append(Simulated("q_{G+1} - q_G against p^G (1-p) + (1-p)^G p", 0.0, worst, 0.0, 63 * len(p)))
    pairs = energy_pairs()
    scale = np.maximum(pairs[:, 0], 1.0)
    found.append(
        Simulated(
            "E against B pi (G-1)", 0.0, float(np.abs((pairs[:, 1] - pairs[:, 0]) / scale).max()), 0.0, len(pairs)
        )
    )
    chain = asym_chains(np.array([1.0, 1.5, 3.0, 5.0]))
    broken = float(np.maximum(-np.diff(chain, axis=2), 0.0).max())
    found.append(Simulated("Asym bounds, largest violation", 0.0, broken, 0.0, chain.shape[0] * chain.shape[1]))
    found.append(Simulated("Sym energies, largest difference", 0.0, sym_spread(), 0.0, 60))
    return found


def on_grid(function: Callable[[Floats], Floats], points: int = 201) -> tuple[Floats, Floats]:
    grid = np.linspace(0, 1, points)
    return grid, function(grid)

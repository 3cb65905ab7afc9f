"""One step of a log: what each channel does in its groups (arXiv 2610.00574, Eq. 3-6 and 34)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from harness.aggregation import Aggregation, Batch, conflicts, expected_density
from harness.diagnose.cells import Floats


@dataclass(frozen=True)
class ChannelStep:
    """One channel in one step of B groups.

    mean: of the present rewards. missing: how many are absent. density, energy: pi and E of gdpo's advantages (eps
    1e-6, ddof 1); energy_share: E over the sum of all channels' (NaN where that is 0). weight, cap_hit: DARA's omega.
    all_low, all_high, same, too_few: shares of groups in which the channel does not vary, because each reward is the
    channel's lowest, its highest, some other value, or because there are fewer than two rewards; with the density they
    sum to 1.
    success: share of the highest value among the rewards of a channel of two values, else NaN.
    expected: mean over groups of q_G(p) at each group's own success rate p. alike: the same at the step's rate, that is
    the density if all prompts were equally hard. Both NaN where success is.
    """

    mean: float
    missing: int
    density: float
    energy: float
    energy_share: float
    all_low: float
    all_high: float
    same: float
    too_few: float
    success: float
    expected: float
    alike: float
    weight: float
    cap_hit: bool


@dataclass(frozen=True)
class StepReport:
    """One step: responses N and groups B (those with a reward), sizes (least, largest), left_out: responses without any
    reward. conflict: share of responses with channels of opposite sign; opposed: the same per pair of channels.
    hidden: groups that a filter on the sum drops though a channel varies. dropped: all groups that it drops."""

    step: int
    responses: int
    groups: int
    sizes: tuple[int, int]
    left_out: int
    conflict: float
    hidden: int
    dropped: int
    channels: Mapping[str, ChannelStep]
    opposed: Mapping[tuple[str, str], float] = field(default_factory=dict)


def measure(
    step: int,
    batch: Batch,
    plain: Aggregation,
    dara: Aggregation,
    limits: Mapping[str, tuple[float, float]],
    two: frozenset[str],
) -> StepReport:
    """plain, dara: gdpo's and dara_sym's aggregation of the batch. limits: (lowest, highest) reward by channel.
    two: the channels that take only two values."""
    advantages = plain.channel_advantages[batch.positions]
    energies = sum(plain.energy.values())
    channels = {}
    for place, name in enumerate(batch.channels):
        kinds = _kinds(batch, plain.active[:, place], place, limits[name])
        success = expected = alike = float("nan")
        if name in two:
            success, expected, alike = _success(batch, place, limits[name])
        present = batch.present[:, place]
        channels[name] = ChannelStep(
            mean=float(batch.rewards[present, place].mean()) if present.any() else float("nan"),
            missing=plain.missing[name],
            density=plain.density[name],
            energy=plain.energy[name],
            energy_share=plain.energy[name] / energies if energies else float("nan"),
            **kinds,
            success=success,
            expected=expected,
            alike=alike,
            weight=dara.weights[name],
            cap_hit=dara.cap_hit[name],
        )
    kept = batch.group_max(np.abs(batch.summed())) > 0
    return StepReport(
        step=step,
        responses=len(batch.rewards),
        groups=len(batch.sizes),
        sizes=(int(batch.sizes.min()), int(batch.sizes.max())),
        left_out=batch.left_out,
        conflict=float(conflicts(advantages).mean()),
        hidden=int((~kept & ~batch.constant.all(axis=1)).sum()),
        dropped=int((~kept).sum()),
        channels=channels,
        opposed=_opposed(batch.channels, advantages),
    )


def _kinds(batch: Batch, active: np.ndarray, place: int, limit: tuple[float, float]) -> dict[str, float]:
    quiet = ~active
    few = quiet & (batch.counts[:, place] < 2)
    level = batch.means[:, place]
    low = quiet & ~few & np.isclose(level, limit[0], rtol=1e-9, atol=1e-12)
    high = quiet & ~few & ~low & np.isclose(level, limit[1], rtol=1e-9, atol=1e-12)
    same = quiet & ~few & ~low & ~high
    return {
        "all_low": float(low.mean()),
        "all_high": float(high.mean()),
        "same": float(same.mean()),
        "too_few": float(few.mean()),
    }


def _success(batch: Batch, place: int, limit: tuple[float, float]) -> tuple[float, float, float]:
    count = batch.counts[:, place]
    some = count > 0
    if not some.any():
        return float("nan"), float("nan"), float("nan")
    rates = np.clip((batch.means[:, place] - limit[0]) / (limit[1] - limit[0]), 0.0, 1.0)
    rates[~some] = 0.0
    success = float(rates @ count / count.sum())
    sizes = np.maximum(count, 1)
    alike = expected_density(min(success, 1.0), sizes)
    return success, float(expected_density(rates, sizes).mean()), float(alike.mean())


def _opposed(channels: tuple[str, ...], advantages: Floats) -> dict[tuple[str, str], float]:
    found = {}
    for first, name in enumerate(channels):
        for second in range(first + 1, len(channels)):
            found[name, channels[second]] = float(conflicts(advantages[:, [first, second]]).mean())
    return found

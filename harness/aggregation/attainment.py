"""How far the channels have come in a batch, measured against their declared bounds: for saw, saw_grpo and sa_mrpo."""

from __future__ import annotations

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.density import Floats

TOLERANCE = 1e-6
"""A reward may leave its bounds by this share of their width: rounding of a low-precision reward."""


def check_bounds(batch: Batch, bounds: Floats) -> None:
    """ValueError naming channel, group and value if a reward lies outside its channel's bounds [K, 2]."""
    for column, (name, (low, high)) in enumerate(zip(batch.channels, bounds, strict=True)):
        values = batch.rewards[:, column]
        slack = TOLERANCE * (high - low)
        outside = (values < low - slack) | (values > high + slack)
        if outside.any():
            row = int(np.argmax(outside))
            group = batch.labels[int(np.searchsorted(batch.starts, row, side="right")) - 1]
            raise ValueError(
                f"reward {values[row]} of channel {name!r} in group {group!r} (response {int(batch.positions[row])}) "
                f"lies outside the declared bounds ({low:g}, {high:g})"
            )


def batch_means(batch: Batch) -> Floats:
    """Mean of each channel over all its present rewards [K]; NaN for a channel without any."""
    present = batch.counts.sum(axis=0)
    sums = (batch.means * batch.counts).sum(axis=0)
    return np.where(present > 0, sums / np.maximum(present, 1), np.nan)


def coefficients_of_variation(batch: Batch, bounds: Floats) -> Floats:
    """CV_k = std(r_k) / (|mean(r_k) - low_k| + 1e-8) over the batch's present rewards [K], sample std (ddof 1).

    Exactly 0 for a channel that is constant over the batch, or has fewer than two rewards."""
    check_bounds(batch, bounds)
    result = np.zeros(len(batch.channels))
    for column, low in enumerate(bounds[:, 0]):
        values = batch.rewards[:, column]
        values = values[~np.isnan(values)]
        if values.size < 2 or np.ptp(values) <= TOLERANCE**2 * np.abs(values).max():
            continue
        result[column] = values.std(ddof=1) / (abs(values.mean() - low) + 1e-8)
    return result


def variation_weights(batch: Batch, bounds: Floats) -> Floats:
    """Each channel's share of the summed CV, times K [K]; all 1 if every CV is at most 1e-8."""
    variation = coefficients_of_variation(batch, bounds)
    if (variation <= 1e-8).all():
        return np.ones_like(variation)
    return len(variation) * variation / variation.sum()

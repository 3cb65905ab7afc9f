"""Responses whose channels pull in opposite directions, and the GD2PO rules that drop them (arXiv 2606.16771)."""

from __future__ import annotations

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores
from harness.aggregation.density import TAU, Bools, Floats
from harness.aggregation.inputs import suggestion

ORDERS = ("weight_after", "weight_before")


def conflicts(advantages: Floats, tau: float = TAU) -> Bools:
    """Which responses [N] have one channel advantage above ``tau`` and another below ``-tau``; zero is neutral."""
    return np.logical_and((advantages > tau).any(axis=1), (advantages < -tau).any(axis=1))


def without_dropped(batch: Batch, advantages: Floats, dropped: Bools, order: str) -> Scores:
    """Scores that leave the ``dropped`` responses [N] at 0 and weigh each group by the share of it that is kept."""
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; {suggestion(order, ORDERS)}")
    kept = ~dropped
    share = batch.spread(batch.group_sum(kept.astype(np.float64)) / batch.sizes)
    scores = np.where(kept, advantages.sum(axis=1), 0.0)
    if order == "weight_before":
        return Scores(scores * share, advantages, kept=kept)
    return Scores(scores, advantages, kept=kept, scale=share)

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.conflict import conflicts, without_dropped
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, TAU


@method(arxiv="2606.16771")
def gd2po_snr(
    batch: Batch,
    *,
    snr_threshold: float = 0.8,
    order: str = "weight_after",
    tau: float = TAU,
    eps: float = EPS,
    ddof: int = 1,
) -> Scores:
    """As gd2po_hard, but a response in conflict is dropped only if its advantages nearly cancel.

    Formula: drop n if it is in conflict and |sum_k A_k| / (sum_k |A_k| + 1e-8) < snr_threshold; the rest as gd2po_hard
    Assumes: a conflict that one side clearly wins still teaches.
    Degenerate: as gd2po_hard; snr_threshold 0 drops nothing and is gdpo, above 1 it is gd2po_hard.
    Parameters: snr_threshold; order, tau, eps and ddof as in gd2po_hard.
    Source: arXiv 2606.16771
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    ratio = np.abs(advantages.sum(axis=1)) / (np.abs(advantages).sum(axis=1) + 1e-8)
    return without_dropped(batch, advantages, conflicts(advantages, tau) & (ratio < snr_threshold), order)

from collections.abc import Mapping

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import Floats


@method(final_normalization=False, arxiv="2605.25604")
def dvao(batch: Batch, *, weights: Mapping[str, float] | None = None, eps: float = 1e-8, ddof: int = 0) -> Scores:
    """The centred rewards are summed and divided by the summed standard deviations, so a channel counts by its spread.

    Formula: sum_k w_k (r_k - mean(r_k)) / sum_l w_l std(r_l), within the group
    Assumes: the channels share a scale, and a channel that varies more within a group tells more.
    Degenerate: 0 in a group where sum_l w_l std(r_l) <= eps, and in a group of one. A missing reward adds nothing.
    Parameters: weights by channel name (None: 1/K each); eps is the least denominator; ddof of the std, 0 (population)
        by default. Reported as weight: the mean over groups of w_k std(r_k) / sum_l w_l std(r_l), the multiplier of a
        channel's standardised reward. Normalisation over the batch has no effect.
    Source: arXiv 2605.25604
    Certainty: three digests that agree and the reimplementation by DARA's authors; the paper's own eps and rule for
        zero variance are not known.
    """
    count = len(batch.channels)
    values: Floats = np.full(count, 1.0 / count) if weights is None else np.asarray(weights)
    spreads = batch.std(ddof) * values
    total = spreads.sum(axis=1)
    alive = total > eps
    divisor = np.where(alive, total, np.inf)
    scores = batch.deviations @ values / batch.spread(divisor)
    shares = (spreads / divisor[:, None])[alive]
    return Scores(scores, weights=shares.mean(axis=0) if len(shares) else values)

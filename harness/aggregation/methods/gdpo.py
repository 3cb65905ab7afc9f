from collections.abc import Mapping

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, Floats


@method(arxiv="2601.05242")
def gdpo(batch: Batch, *, weights: Mapping[str, float] | None = None, eps: float = EPS, ddof: int = 1) -> Scores:
    """Each channel is normalised within the group, then the advantages are summed.

    Formula: A_k = (r_k - mean(r_k)) / (std(r_k) + eps); S = sum_k w_k A_k; N(S)
    Assumes: a channel deserves its weight per active group, however rarely it is active.
    Degenerate: A_k is 0 where channel k is constant in the group, missing, or the group has one response.
    Parameters: weights, one per channel name, multiply the normalised advantages (None: 1 each); eps is added to the
        group's std; ddof of that std.
    Source: arXiv 2601.05242
    Certainty: the authors' code was read; its final normalisation is the token one.
    """
    advantages = batch.advantages(eps, ddof)
    if weights is None:
        return Scores(advantages.sum(axis=1), advantages)
    values: Floats = np.asarray(weights)
    return Scores(advantages @ values, advantages, values)

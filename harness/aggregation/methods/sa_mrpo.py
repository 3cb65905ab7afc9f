from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.aggregation.attainment import batch_means, check_bounds
from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, Floats


@method(arxiv="2608.16072")
def sa_mrpo(
    batch: Batch,
    *,
    gamma: float = 0.5,
    bounds: Mapping[str, Any] | None = None,
    weights: Mapping[str, float] | None = None,
    eps: float = EPS,
    ddof: int = 1,
) -> Scores:
    """A channel is weighted by how far its mean is from its maximum, so that a saturated reward fades.

    Formula: s_k = (mean of r_k over the batch - low_k) / (high_k - low_k); S = sum_k w_k (1 - s_k)^gamma A_k; N(S)
    Assumes: the bounds are attainable, and the reward that is furthest from its maximum needs the most weight.
    Degenerate: a channel at its maximum has weight 0 (its A is 0 as well); gamma = 0 is gdpo. A channel without any
        reward in the batch has weight 0.
    Parameters: gamma is the strength (at least 0; 0.25 in the paper's two-reward table); bounds, (low, high) by channel
        name, required, a reward outside them is an error; weights by channel name (None: 1 each); eps and ddof of A:
        the paper has no eps and ddof 0.
    Source: arXiv 2608.16072
    Certainty: the full paper was read.
    """
    limits: Floats = np.asarray(bounds)
    check_bounds(batch, limits)
    advantages = batch.advantages(eps, ddof)
    attained = (batch_means(batch) - limits[:, 0]) / (limits[:, 1] - limits[:, 0])
    distance = np.clip(1.0 - np.where(np.isnan(attained), 1.0, attained), 0.0, 1.0)
    effective = distance**gamma * (1.0 if weights is None else np.asarray(weights))
    return Scores(advantages @ effective, advantages, effective)

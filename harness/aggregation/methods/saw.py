from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.aggregation.attainment import variation_weights
from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS


@method(arxiv="2606.07705")
def saw(batch: Batch, *, bounds: Mapping[str, Any] | None = None, eps: float = EPS, ddof: int = 1) -> Scores:
    """The channels are weighted by their coefficient of variation over the batch, on the basis of gdpo.

    Formula: omega_k = K CV_k / sum_l CV_l, CV_k = std(r_k) / (|mean(r_k) - low_k| + 1e-8) over the batch (ddof 1);
        S = sum_k omega_k A_k; N(S)
    Assumes: a reward that varies much for its mean has the most left to learn; its lower bound is its zero.
    Degenerate: a channel that is constant over the batch has CV 0; if every CV is (nearly) 0, all weights are 1. With
        equal CVs it is gdpo.
    Parameters: bounds, (low, high) by channel name, required; a reward outside them is an error. eps and ddof of A.
    Source: arXiv 2606.07705
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    omega = variation_weights(batch, np.asarray(bounds))
    return Scores(advantages @ omega, advantages, omega)

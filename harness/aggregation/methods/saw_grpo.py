from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.aggregation.attainment import variation_weights
from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS


@method(final_normalization=False, arxiv="2606.07705")
def saw_grpo(batch: Batch, *, bounds: Mapping[str, Any] | None = None, eps: float = EPS, ddof: int = 1) -> Scores:
    """The raw rewards are weighted by their coefficient of variation over the batch, then treated as in grpo.

    Formula: R = sum_k v_k r_k, v_k = CV_k / sum_l CV_l with CV_k as in saw; (R - mean(R)) / (std(R) + eps)
    Assumes: as saw, and the channels share a scale.
    Degenerate: 0 where R is constant in the group and in a group of one; v_k = 1/K if every CV is (nearly) 0.
    Parameters: bounds, (low, high) by channel name, required; a reward outside them is an error. eps is added to the
        group's std; ddof of that std. Normalisation over the batch has no effect.
    Source: arXiv 2606.07705
    Certainty: the authors' code was read.
    """
    shares = variation_weights(batch, np.asarray(bounds)) / len(batch.channels)
    return Scores(batch.standardised(batch.summed(shares), eps, ddof), weights=shares)

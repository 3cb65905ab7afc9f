from collections.abc import Mapping

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, Floats


@method(arxiv="2610.00574")
def static_asym(
    batch: Batch,
    *,
    weights: Mapping[str, float] = {"correctness": 1.0, "length": 5.0},
    eps: float = EPS,
    ddof: int = 1,
) -> Scores:
    """The positive advantages of each channel are multiplied by a fixed weight: the control for dara_asym.

    Formula: S = sum_k (w_k [A_k]_+ + [A_k]_-); N(S)
    Assumes: the right weight is known beforehand and does not change during training.
    Degenerate: A_k is 0 where channel k is constant in the group, missing, or the group has one response. With every
        weight 1 it is gdpo.
    Parameters: weights, one per channel name; the default is the paper's control for the channels correctness and
        length, any other channels need their own, as in method.weights={correctness:1,format:5}. eps and ddof of A.
    Source: arXiv 2610.00574, the static controls of its mathematics runs
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    values: Floats = np.asarray(weights)
    scores = advantages.sum(axis=1) + np.maximum(advantages, 0.0) @ (values - 1.0)
    return Scores(scores, advantages, values)

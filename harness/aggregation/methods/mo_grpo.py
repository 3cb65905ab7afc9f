import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS


@method(final_normalization=False, arxiv="2509.22047")
def mo_grpo(batch: Batch, *, eps: float = EPS, ddof: int = 1) -> Scores:
    """The rewards are divided by their group's standard deviation, summed, and normalised within the group again.

    Formula: R = sum_k r_k / (std(r_k) + eps); (R - mean(R)) / (std(R) + eps)
    Assumes: every channel that varies in a group deserves the same influence there.
    Degenerate: a channel that is constant in the group, or missing, adds 0; 0 where R is constant and in a group of
        one.
    Parameters: eps is added to both stds; ddof of both. Normalisation over the batch has no effect.
    Source: arXiv 2509.22047
    Certainty: the abstract alone; eps and ddof are this project's choice.
    """
    advantages = batch.advantages(eps, ddof)
    summed = batch.without_constant(advantages.sum(axis=1), np.abs(advantages).sum(axis=1))
    return Scores(batch.standardised(summed, eps, ddof), advantages)

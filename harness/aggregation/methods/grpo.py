from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS


@method(final_normalization=False, arxiv="2402.03300")
def grpo(batch: Batch, *, eps: float = EPS, ddof: int = 1) -> Scores:
    """The rewards are summed first, the sum is normalised within the group.

    Formula: R = sum_k r_k; (R - mean(R)) / (std(R) + eps)
    Assumes: the channels share a scale; different rewards with the same sum deserve the same advantage.
    Degenerate: 0 where R is constant in the group, also if single channels vary, and in a group of one. A missing
        reward adds nothing, as if it were the channel's mean in the group.
    Parameters: eps is added to the group's std; ddof of that std. Normalisation over the batch has no effect. To let a
        penalty into the summed reward alone, aggregate the summed reward as the only channel.
    Source: arXiv 2402.03300
    Certainty: the formula is public; eps and ddof are verl's (TRL adds 1e-4).
    """
    return Scores(batch.standardised(batch.summed(), eps, ddof))

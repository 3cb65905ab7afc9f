from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method


@method(final_normalization=False, arxiv="2503.20783")
def dr_grpo(batch: Batch) -> Scores:
    """The rewards are summed and centred within the group, without dividing by a standard deviation.

    Formula: R = sum_k r_k; R - mean(R)
    Assumes: the channels share a scale, and the size of a difference in reward means something.
    Degenerate: 0 where R is constant in the group and in a group of one. A missing reward adds nothing, as if it were
        the channel's mean in the group. Scaling all rewards scales the advantages.
    Parameters: none. Normalisation over the batch has no effect. The loss with constant-length reduction that was
        proposed with it is a policy loss, chosen apart from the method.
    Source: arXiv 2503.20783
    Certainty: the formula is public.
    """
    return Scores(batch.summed())

from harness.aggregation.batch import Batch
from harness.aggregation.conflict import conflicts, without_dropped
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, TAU


@method(arxiv="2606.16771")
def gd2po_hard(
    batch: Batch, *, order: str = "weight_after", tau: float = TAU, eps: float = EPS, ddof: int = 1
) -> Scores:
    """Responses whose channel advantages have opposite signs are dropped; a group counts by the share that is left.

    Formula: keep n unless some A_k > tau and some A_k < -tau; rho = kept share of the group; over the kept alone,
        weight_after: rho N(sum_k A_k), weight_before: N(rho sum_k A_k); 0 for the dropped
    Assumes: a response on which the rewards disagree teaches nothing.
    Degenerate: an advantage of 0 is neutral; fewer than two kept responses in the batch give zeros; without conflicts
        it is gdpo.
    Parameters: order says whether rho multiplies after the final normalisation (weight_after, the reimplementation by
        DARA's authors) or before it (weight_before, the method's own code); tau is the size up to which an advantage
        is neutral, and the activity threshold of the reported density; eps and ddof of A.
    Source: arXiv 2606.16771
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    return without_dropped(batch, advantages, conflicts(advantages, tau), order)

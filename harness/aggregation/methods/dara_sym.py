from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, TAU, density, density_weights


@method(arxiv="2610.00574")
def dara_sym(batch: Batch, *, w_max: float = 5.0, tau: float = TAU, eps: float = EPS, ddof: int = 1) -> Scores:
    """A channel that is active in few groups is amplified until its advantage energy equals that of the densest.

    Formula: omega_k = min(w_max, sqrt(max_l pi_l / pi_k)); S = sum_k omega_k A_k; N(S), with pi_k the share of groups
        in which channel k is active
    Assumes: every channel should move the policy by the same advantage energy, whatever its density.
    Degenerate: omega_k = 1 where pi_k = 0, so all weights are 1 if every channel is inactive. Without the cap every
        active channel ends with the energy B max(pi) (G - 1), for eps = 0 and groups of G.
    Parameters: w_max caps omega (at least 1; inf for none); a group is active if sum |A_k| > tau; eps and ddof of A.
        Estimated anew on each batch.
    Source: arXiv 2610.00574, Eq. 6-8
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    omega, cap_hit = density_weights(density(batch.active(advantages, tau)), w_max)
    return Scores(advantages @ omega, advantages, omega, cap_hit)

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, TAU, density, density_weights


@method(arxiv="2610.00574")
def dara_asym(batch: Batch, *, w_max: float = 5.0, tau: float = TAU, eps: float = EPS, ddof: int = 1) -> Scores:
    """As dara_sym, but only positive advantages are amplified.

    Formula: omega_k as in dara_sym; S = sum_k (omega_k [A_k]_+ + [A_k]_-); N(S)
    Assumes: what a rarely active channel favours should be reinforced without pushing harder against the rest.
    Degenerate: as dara_sym. The energy of a channel stays between that of gdpo and omega_k^2 times it (Eq. 37).
    Parameters: w_max caps omega (at least 1; inf for none); a group is active if sum |A_k| > tau; eps and ddof of A.
        Estimated anew on each batch.
    Source: arXiv 2610.00574, Eq. 6-8
    Certainty: the authors' code was read.
    """
    advantages = batch.advantages(eps, ddof)
    omega, cap_hit = density_weights(density(batch.active(advantages, tau)), w_max)
    scores = advantages.sum(axis=1) + np.maximum(advantages, 0.0) @ (omega - 1.0)
    return Scores(scores, advantages, omega, cap_hit)

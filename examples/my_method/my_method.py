"""A method of your own: every channel is scaled until its measured advantage energy equals the largest one.

Copy this folder, rename file and function, change the formula. docs/extending.md explains what ``batch`` offers.
"""

import numpy as np

from harness.aggregation import Scores


def my_method(batch, *, limit=5.0):
    """S = sum_k w_k A_k with w_k = min(limit, sqrt(max_l E_l / E_k)) and E_k = sum of A_k^2; 1 where E_k = 0."""
    advantages = batch.advantages()
    energy = (advantages**2).sum(axis=0)
    alive = energy > 0
    weights = np.ones_like(energy)
    weights[alive] = np.minimum(limit, np.sqrt(energy.max() / energy[alive]))
    return Scores(advantages @ weights, weights=weights)

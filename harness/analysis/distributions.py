"""Quantiles of the normal and of Student's t. scipy is loaded when one is first asked for: most figures need none, and
loading it would take a sixth of their time."""

from __future__ import annotations

import numpy as np


def normal_quantile(probability: float | np.ndarray) -> np.ndarray:
    """Of the standard normal; -inf at 0, inf at 1."""
    from scipy import special

    return np.asarray(special.ndtri(probability))


def normal_probability(z: float | np.ndarray) -> np.ndarray:
    """P(Z <= z), Z standard normal."""
    from scipy import special

    return np.asarray(special.ndtr(z))


def t_quantile(df: float, probability: float) -> float:
    """Of Student's t with ``df`` > 0 degrees of freedom (need not be whole)."""
    from scipy import special

    return float(special.stdtrit(df, probability))


def t_probability(df: float, t: float) -> float:
    """P(T <= t), T Student's t with ``df`` > 0 degrees of freedom."""
    from scipy import special

    return float(special.stdtr(df, t))

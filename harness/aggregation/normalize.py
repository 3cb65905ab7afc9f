"""The final normalisation N(S): over responses (the paper's text) or over valid tokens (verl's whitening)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from harness.aggregation.density import Bools, Floats

Normalization = Literal["response", "token"]
NORMALIZATIONS: tuple[str, ...] = ("response", "token")

CONSTANT_SCORE = 1e-12
"""Scores that differ by no more than this (times their size, if that is above 1) are constant: rounding, no signal."""


def normalize(scores: Floats, kind: str, lengths: Floats | None, kept: Bools | None = None) -> Floats:
    """N(S) of the scores [N]; ``kept`` [N] limits statistics and result to some responses, the others get 0.

    ``response``: ``(S - mean) / (std + 1e-6)``, sample std (ddof 1) over responses of equal weight.
    ``token``: ``(S - mean) / sqrt(var + 1e-8)`` with mean and variance over valid tokens, i.e. weighted by ``lengths``
    [N], and Bessel's correction over the token count. A response without a token gets 0.
    Zeros for a constant S, fewer than two responses (two tokens), or no kept response; never NaN.
    """
    if kind == "token":
        if lengths is None:
            raise ValueError("normalization 'token' needs lengths, the number of valid tokens of each response")
        kept = lengths > 0 if kept is None else kept & (lengths > 0)
    result = np.zeros_like(scores)
    chosen = slice(None) if kept is None else kept
    values = scores[chosen]
    if values.size < 2 or np.ptp(values) <= CONSTANT_SCORE * max(1.0, float(np.abs(values).max())):
        return result
    if lengths is None or kind == "response":
        deviation = values - values.mean()
        result[chosen] = deviation / (np.sqrt(deviation @ deviation / (values.size - 1)) + 1e-6)
        return result
    tokens = lengths[chosen]
    total = tokens.sum()
    if total >= 2:
        deviation = values - tokens @ values / total
        variance = tokens @ (deviation * deviation) / (total - 1)
        result[chosen] = deviation / np.sqrt(variance + 1e-8)
    return result

"""One random generator per cell of a table, derived from the cell's name."""

from __future__ import annotations

import hashlib

import numpy as np

SEED = 20261000574
"""Part of every key; changing it redraws all resamples of the harness."""


def generator_for(*key: object) -> np.random.Generator:
    """A generator that depends on ``key`` alone: not on other cells, their order, the process or PYTHONHASHSEED."""
    text = "\x1f".join([str(SEED), *(f"{type(part).__name__}:{part}" for part in key)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))

"""Batches for the property tests: uneven groups, scattered labels, channels on different scales."""

import numpy as np
from hypothesis import strategies as st

NAMES = ("correctness", "format", "length")
LEVELS = {
    "correctness": (-3.0, -1.2, 0.0, 1.5, 2.25, 3.0),
    "format": (0.0, 1.0),
    "length": (0.0, 1 / 3, 0.7, 1.0),
}
BOUNDS = {"correctness": (-3.0, 3.0), "format": (0.0, 1.0), "length": (0.0, 1.0)}
ANY_SIZE = st.integers(1, 6)


@st.composite
def batches(draw, sizes=ANY_SIZE, missing=False, binary=False):
    """(rewards [N, K], labels [N], channels, lengths [N]), with at least one group of two.

    The group sizes are hypothesis' own, so they shrink; the values come from a drawn seed, which is much faster."""
    channels = list(NAMES[: draw(st.integers(1, 3))])
    group_sizes = draw(st.lists(sizes, min_size=1, max_size=6).filter(lambda found: max(found) > 1))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    total = sum(group_sizes)
    columns = []
    for name in channels:
        levels = (0.0, 1.0) if binary else LEVELS[name]
        column = rng.choice(levels[: rng.integers(1, len(levels) + 1)], total)
        columns.append(np.where(rng.random(total) < missing * rng.choice([0, 0.1, 0.5]), np.nan, column))
    order = rng.permutation(total)
    labels = np.repeat(np.arange(len(group_sizes)), group_sizes)[order].tolist()
    return np.array(columns).T[order], labels, channels, rng.integers(1, 50, total)


def parameters(method, channels, **other):
    """What a method needs besides the batch."""
    found = {}
    if method in ("saw", "saw_grpo", "sa_mrpo"):
        found["bounds"] = {name: BOUNDS[name] for name in channels}
    if method.startswith("static"):
        found["weights"] = {name: 1.0 + 2.0 * index for index, name in enumerate(channels)}
    return {**found, **other}

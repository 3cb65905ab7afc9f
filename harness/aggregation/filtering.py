"""Dynamic group filtering: which prompt groups carry a signal at all (arXiv 2503.14476; variants of 2610.00574)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.aggregation.batch import prepare
from harness.aggregation.density import Bools
from harness.aggregation.inputs import label_list, suggestion

MODES = ("sum", "any_channel")


def group_filter(rewards: Any, groups: Any, channels: Sequence[str], mode: str = "sum") -> Bools:
    """Which groups to keep: [B] bool, one per distinct label of ``groups`` in order of first appearance.

    ``sum``: the sum of the rewards differs within the group; drops a group such as (1, 0), (0, 1) though both channels
    vary. ``any_channel``: at least one channel differs. A missing reward adds what its channel's mean in the group
    would. A group of one response, and one without any reward, is dropped. Arguments as in :func:`aggregate`."""
    if mode not in MODES:
        raise ValueError(f"unknown filter mode {mode!r}; {suggestion(mode, MODES)}")
    labels = label_list(groups)
    batch = prepare(rewards, labels, channels=channels)
    if mode == "any_channel":
        kept = np.logical_not(batch.constant.all(axis=1))
    else:
        kept = batch.group_max(abs(batch.summed())) > 0
    if batch.left_out == 0:
        return kept
    by_label = dict(zip(batch.labels, kept.tolist(), strict=True))
    return np.array([by_label.get(label, False) for label in dict.fromkeys(labels)], dtype=bool)

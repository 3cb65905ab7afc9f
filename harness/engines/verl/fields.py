"""What the rows of a batch of verl's hold, read from its transfer queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transfer_queue as tq

from harness.engines.verl.naming import place_of


def reward_infos(keys: Sequence[str], partition_id: str) -> list[Mapping[str, Any]]:
    """What the reward function returned for each row beside its score, in the order of ``keys``; {} where there is
    nothing."""
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=["extra_fields"])
    infos = []
    for item in list(data["extra_fields"]):
        fields = getattr(item, "data", item)
        infos.append(fields.get("reward_extra_info", {}) if isinstance(fields, Mapping) else {})
    return infos


def rollout_columns(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """What verl's rollout files lack, a column each: the group of a row, and all that the reward function returned
    beside the score; None where a row has none of it. infos: row key -> what was returned, in the order of the rows."""
    names = dict.fromkeys(name for info in infos.values() for name in info if name not in ("score", "uid"))
    plain = [
        {name: value.item() if hasattr(value, "item") else value for name, value in info.items()}
        for info in infos.values()
    ]
    columns = {name: [info.get(name) for info in plain] for name in names}
    return {"group_uid": [place_of(key)[0] for key in infos], **columns}


def row_fields(key: str, partition_id: str) -> tuple[set[str], set[str]]:
    """Names of the fields of a row that hold tensors, and of those that hold anything else."""
    row = tq.kv_batch_get(keys=[key], partition_id=partition_id)
    tensors = {name for name, value in row.items() if isinstance(value, torch.Tensor)}
    return tensors, set(row.keys()) - tensors


def reference_kl(batch: Any, padding: np.ndarray) -> float:
    """Mean over valid response tokens of log pi - log pi_ref (nats), at the tokens that were sampled; 0.0 where there
    are none. ``padding`` [rows]: rows that verl added, which do not count."""
    keys = [key for key, padded in zip(batch.keys, padding.tolist(), strict=True) if not padded]
    fields = ["old_log_probs", "ref_log_prob", "response_mask"]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=fields)
    total = tokens = 0.0
    for policy, reference, mask in zip(*(data[field].unbind() for field in fields), strict=True):
        total += float(((policy - reference) * mask).sum(dtype=torch.float64))
        tokens += float(mask.sum())
    return total / tokens if tokens else 0.0

"""The metrics of a step by channel, under the names of the run store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.aggregation import Aggregation


def response_metrics(
    infos: Sequence[Mapping[str, Any]], channels: Mapping[str, NDArray[np.float64]], lengths: NDArray[np.int64]
) -> dict[str, float]:
    """Of N responses: ``reward/<channel>`` and ``reward/score`` (means; missing rewards left out), ``failure/<kind>``,
    ``response_length`` (tokens) and ``responses_in_step``."""
    metrics: dict[str, float] = {}
    for name, values in channels.items():
        present = values[~np.isnan(values)]
        if len(present):
            metrics[f"reward/{name}"] = float(present.mean())
    metrics["reward/score"] = float(np.nansum(np.stack(list(channels.values())), axis=0).mean())
    for key in sorted({key for info in infos for key in info if key.startswith("failure/")}):
        metrics[key] = float(np.mean([float(info.get(key) or 0.0) for info in infos]))
    metrics["response_length"] = float(lengths.mean())
    metrics["responses_in_step"] = float(len(infos))
    return metrics


def aggregation_metrics(result: Aggregation) -> dict[str, float]:
    """``density/``, ``energy/``, ``weight/``, ``cap_hit/`` (0 or 1) and ``missing/`` (count) of each channel."""
    metrics: dict[str, float] = {}
    for name in result.density:
        metrics[f"density/{name}"] = result.density[name]
        metrics[f"energy/{name}"] = result.energy[name]
        metrics[f"weight/{name}"] = result.weights[name]
        metrics[f"cap_hit/{name}"] = float(result.cap_hit[name])
        metrics[f"missing/{name}"] = float(result.missing[name])
    return metrics

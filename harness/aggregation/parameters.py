"""Checks of a method's parameters: known names, and the values the shared names may take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.aggregation.definition import Method
from harness.aggregation.inputs import by_channel, suggestion

LOWEST = {"eps": 0.0, "tau": 0.0, "gamma": 0.0, "w_max": 1.0, "snr_threshold": 0.0}
"""Shared names that are one number, and the least value of each."""

MAY_BE_INFINITE = {"w_max", "snr_threshold"}


def checked(method: Method, given: Mapping[str, Any], channels: tuple[str, ...]) -> dict[str, Any]:
    """All parameters of ``method``, defaults filled in; ``weights`` and ``bounds`` become arrays in channel order."""
    for name in given:
        if name not in method.parameters:
            raise ValueError(f"method {method.name!r} has no parameter {name!r}; {suggestion(name, method.parameters)}")
    values = {**method.parameters, **given}
    for name, value in values.items():
        if name in LOWEST:
            values[name] = number(value, name, LOWEST[name], infinite=name in MAY_BE_INFINITE)
    if "ddof" in values and (isinstance(values["ddof"], bool) or values["ddof"] not in (0, 1)):
        raise ValueError(f"ddof is {values['ddof']!r}, but it is 1 (sample std) or 0 (population std)")
    if values.get("weights") is not None:
        entries = by_channel(values["weights"], channels, f"weights of method {method.name!r}")
        values["weights"] = np.array(
            [number(entry, f"weight of channel {name!r}", 0.0) for name, entry in zip(channels, entries, strict=True)]
        )
    if "bounds" in values:
        values["bounds"] = _bounds(values["bounds"], channels, method.name)
    return values


def number(value: Any, what: str, lowest: float = -math.inf, *, infinite: bool = False) -> float:
    """``value`` as a float of at least ``lowest``; no bool, text, NaN or (unless allowed) infinity."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise ValueError(f"{what} is {value!r}, not a number")
    result = float(value)
    if math.isnan(result) or (math.isinf(result) and not infinite):
        raise ValueError(f"{what} is {value!r}, not a finite number")
    if result < lowest:
        raise ValueError(f"{what} is {value!r}, but it must be at least {lowest:g}")
    return result


def _bounds(bounds: Any, channels: tuple[str, ...], method: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Bounds [K, 2] in channel order; a missing declaration is an error that shows the form."""
    if bounds is None:
        raise ValueError(
            f"method {method!r} needs the bounds of every channel ({', '.join(channels)}): "
            f"bounds={{{channels[0]!r}: (low, high), ...}}"
        )
    rows = []
    for name, pair in zip(channels, by_channel(bounds, channels, f"bounds of method {method!r}"), strict=True):
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"bounds of channel {name!r} are {pair!r}, not a pair (low, high)")
        low, high = (number(value, f"bound of channel {name!r}") for value in pair)
        if not low < high:
            raise ValueError(f"bounds of channel {name!r} are ({low:g}, {high:g}), but low must be below high")
        rows.append((low, high))
    return np.array(rows)


def step_parameters(
    method: Method, parameters: Mapping[str, Any], *, bounds: Mapping[str, Any], progress: float
) -> dict[str, Any]:
    """A run's parameters at one training step: what a method needs from the run is filled in where it is not given.

    bounds: (low, high) by channel name, as the task declares them. progress: the share of training done, in [0, 1],
    0 at the first step and 1 at the last. A method without these parameters gets neither."""
    result = dict(parameters)
    for name, value in (("bounds", bounds), ("progress", progress)):
        if name in method.parameters and result.get(name) is None:
            result[name] = value
    return result

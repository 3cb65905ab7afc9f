"""From what a caller has (arrays, tensors, lists, mappings) to checked float64 arrays; every mistake a ValueError."""

from __future__ import annotations

import difflib
import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.aggregation.density import Floats

LARGEST = 1e150
"""Rewards beyond this cannot be squared in float64."""


def suggestion(name: object, valid: Iterable[object]) -> str:
    """The nearest valid name, then all of them: the end of a message about an unknown name."""
    names = [str(item) for item in valid]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}valid: {', '.join(names) if names else 'none'}"


def channel_names(channels: Sequence[str]) -> tuple[str, ...]:
    """The channel names as a tuple; at least one, strings, none twice."""
    if isinstance(channels, str):
        raise ValueError(f"channels is the string {channels!r}; give a list of channel names")
    names = tuple(channels)
    if not names:
        raise ValueError("channels is empty; name at least one reward channel")
    for name in names:
        if not isinstance(name, str):
            raise ValueError(f"channel name {name!r} is not a string")
        if names.count(name) > 1:
            raise ValueError(f"channel {name!r} is named twice in channels")
    return names


def numbers(values: Any, what: str) -> Floats:
    """``values`` as float64; None becomes NaN. Tensors of any float type are read without importing their library."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} is not a rectangular array of numbers ({error})") from None
    if array.dtype.kind == "O":
        for item in array.flat:
            if isinstance(item, str | bytes):
                raise ValueError(f"{what} holds the text {item!r}, not a number")
    elif array.dtype.kind in "USMmc":
        example = f" (first value {array.flat[0]!r})" if array.size else ""
        raise ValueError(f"{what} has type {array.dtype}, not numbers{example}")
    try:
        return np.asarray(array, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{what} holds something that is not a number ({error})") from None


def reward_matrix(rewards: Any, channels: tuple[str, ...]) -> Floats:
    """Rewards [N, K], one contiguous column per channel, from [N, K] or from a mapping or table channel -> [N]."""
    if isinstance(rewards, Mapping) or hasattr(rewards, "columns"):
        keys = list(rewards.columns if hasattr(rewards, "columns") else rewards)
        for name in channels:
            if name not in keys:
                raise ValueError(f"rewards has no channel {name!r}; {suggestion(name, keys)}")
        for key in keys:
            if key not in channels:
                raise ValueError(
                    f"rewards has channel {key!r}, which channels does not name; {suggestion(key, channels)}"
                )
        columns = [numbers(rewards[name], f"rewards of channel {name!r}") for name in channels]
        for name, column in zip(channels, columns, strict=True):
            if column.ndim != 1 or len(column) != len(columns[0]):
                raise ValueError(
                    f"rewards of channel {name!r} has shape {column.shape}, "
                    f"but channel {channels[0]!r} has shape {columns[0].shape}; each needs one value per response"
                )
        return np.array(columns).T
    matrix = numbers(rewards, "rewards")
    if matrix.ndim != 2 or matrix.shape[1] != len(channels):
        raise ValueError(
            f"rewards has shape {matrix.shape}, but {len(channels)} channel(s) ({', '.join(channels)}) "
            f"need [responses, {len(channels)}]"
        )
    return np.array(matrix.T, order="C").T


def label_list(groups: Any) -> list[Any]:
    """Group labels as a list of Python objects; text and a single object are no list of labels."""
    try:
        labels = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    except TypeError:
        labels = None
    if isinstance(groups, str | bytes) or not isinstance(labels, list):
        raise ValueError(f"groups is {groups!r}; give one label per response")
    return labels


def group_codes(groups: Any, count: int) -> tuple[NDArray[np.intp], list[Hashable]]:
    """Row number of each response's group [N], and the labels in order of first appearance.

    Labels are compared exactly, as dictionary keys: "01" and "1" differ. None and NaN are no labels."""
    labels = label_list(groups)
    if len(labels) != count:
        raise ValueError(f"groups has {len(labels)} labels for {count} responses")
    rows: defaultdict[Hashable, int] = defaultdict(itertools.count().__next__)
    try:
        codes = np.fromiter(map(rows.__getitem__, labels), dtype=np.intp, count=count)
    except TypeError:
        position = next(n for n, label in enumerate(labels) if _unhashable(label))
        raise ValueError(f"group label {labels[position]!r} of response {position} is not hashable") from None
    for label in rows:
        if label is None or label != label:
            raise ValueError(f"group label of response {labels.index(label)} is missing ({label!r})")
    return codes, list(rows)


def _unhashable(label: object) -> bool:
    try:
        hash(label)
    except TypeError:
        return True
    return False


def token_counts(lengths: Any, count: int) -> Floats | None:
    """Valid tokens of each response [N] as whole numbers >= 0 (in float64), or None."""
    if lengths is None:
        return None
    tokens = numbers(lengths, "lengths")
    if tokens.shape != (count,):
        raise ValueError(f"lengths has shape {tokens.shape}, but there are {count} responses")
    wrong = ~((tokens >= 0) & (tokens == np.floor(tokens)) & np.isfinite(tokens))
    if wrong.any():
        position = int(np.argmax(wrong))
        raise ValueError(f"length {tokens[position]} of response {position} is not a whole number of tokens >= 0")
    return tokens


def by_channel(values: Mapping[str, Any], channels: tuple[str, ...], what: str) -> list[Any]:
    """The entries of a mapping by channel name, in channel order; an unknown or missing name is an error."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{what} is {values!r}; give a mapping by channel name ({', '.join(channels)})")
    for key in values:
        if key not in channels:
            raise ValueError(
                f"{what} names channel {key!r}, which the batch does not have; {suggestion(key, channels)}"
            )
    for name in channels:
        if name not in values:
            raise ValueError(
                f"{what} has no entry for channel {name!r}; given: {', '.join(map(str, values)) or 'none'}"
            )
    return [values[name] for name in channels]

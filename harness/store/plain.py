"""Plain JSON: NumPy scalars become numbers, and numbers that JSON lacks become the words that stand for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(value: Any) -> Any:
    """Dicts, lists, strings, numbers, booleans and None. NaN and the infinities become the strings ``"NaN"``,
    ``"Infinity"``, ``"-Infinity"``, so that every JSON parser can read the file. Raises TypeError for anything else."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _word(float(value))
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy scalars and arrays, torch tensors
        return to_plain(value.tolist())
    raise TypeError(f"{type(value).__name__} {value!r} cannot be stored as JSON")


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def number(value: Any) -> Any:
    """The inverse of :func:`to_plain` for one value: the three words become floats again."""
    return _WORDS.get(value, value) if isinstance(value, str) else value


def dumps(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON, floats to the last bit."""
    separators = None if indent else (",", ":")
    return json.dumps(to_plain(value), allow_nan=False, ensure_ascii=False, indent=indent, separators=separators)

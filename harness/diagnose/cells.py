"""Cells to numbers and group labels to digests: exact, and whatever is not a number is counted, never guessed."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LARGEST = 1e150
"""A reward beyond this is read as infinite: its square does not fit a float64."""

EMPTY = frozenset({"", "nan", "na", "n/a", "none", "null"})
_PLAIN = frozenset({int, float, bool, type(None)})
_WORDS = {"true": 1.0, "false": 0.0}
_DIGEST = 16


class Notes:
    """What could not be read as it stands: counts by (kind, column), and the first line of each."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.first: dict[tuple[str, str], int] = {}

    def add(self, kind: str, column: str, line: int, count: int = 1) -> None:
        self.counts[kind, column] += count
        self.first.setdefault((kind, column), line)


def as_number(cell: Any) -> float | None:
    """The number a cell holds, NaN where it is empty, None where it is something else. Text counts if all of it is one
    decimal number or true/false."""
    if cell is None:
        return math.nan
    if isinstance(cell, bool | int | float | np.number):
        try:
            return float(cell)
        except OverflowError:
            return math.inf
    if isinstance(cell, str):
        text = cell.strip().lower()
        if text in EMPTY:
            return math.nan
        if text in _WORDS:
            return _WORDS[text]
        try:
            return None if "_" in text else float(text)
        except ValueError:
            return None
    return None


def reward_column(cells: Sequence[Any], column: str, lines: Sequence[int], notes: Notes) -> Floats:
    """Rewards [n] of one channel; NaN where there is none. Text that is no number, and infinity, are counted."""
    if set(map(type, cells)) <= _PLAIN:
        try:
            values = np.array(cells, dtype=np.float64)
        except OverflowError:
            values = _one_by_one(cells, column, lines, notes)
    else:
        values = _one_by_one(cells, column, lines, notes)
    return bounded(values, column, lines, notes)


def bounded(values: Floats, column: str, lines: Sequence[int], notes: Notes) -> Floats:
    """NaN in place of what is infinite or as good as that; counted."""
    with np.errstate(invalid="ignore"):
        beyond = np.abs(values) > LARGEST
    if beyond.any():
        notes.add("infinite", column, int(lines[int(np.argmax(beyond))]), int(beyond.sum()))
        values = np.where(beyond, np.nan, values)
    return values


def _one_by_one(cells: Sequence[Any], column: str, lines: Sequence[int], notes: Notes) -> Floats:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        number = as_number(cell)
        if number is None:
            notes.add("not a number", column, int(lines[row]))
            number = math.nan
        values[row] = number
    return values


def whole_column(
    cells: Sequence[Any], column: str, lines: Sequence[int], notes: Notes
) -> tuple[NDArray[np.int64], Any]:
    """Steps or attempts [n] as whole numbers, and where they are (bool [n]); anything else is counted."""
    if set(map(type, cells)) == {int}:
        try:
            return np.array(cells, dtype=np.int64), np.ones(len(cells), dtype=bool)
        except OverflowError:
            pass
    values = np.zeros(len(cells), dtype=np.int64)
    valid = np.zeros(len(cells), dtype=bool)
    for row, cell in enumerate(cells):
        number = as_number(cell)
        if number is not None and math.isfinite(number) and number == math.floor(number) and abs(number) < 2**53:
            values[row], valid[row] = int(number), True
        else:
            notes.add(f"no {column}", column, int(lines[row]))
    return values, valid


def digest(label: Any) -> bytes:
    """16 bytes that stand for a group label: the text "1", the text "01" and the number 1 all differ."""
    return hashlib.blake2b(_spelled(label), digest_size=_DIGEST).digest()


def is_label(label: Any) -> bool:
    return label is not None and label == label and label != ""


def _spelled(label: Any) -> bytes:
    if isinstance(label, str):
        return b"s" + label.encode("utf-8", "surrogatepass")
    if isinstance(label, bool):
        return b"b%d" % label
    if isinstance(label, int | np.integer):
        return b"i%d" % int(label)
    if isinstance(label, float | np.floating):
        number = float(label)
        return b"i%d" % int(number) if number.is_integer() else b"f" + repr(number).encode()
    if isinstance(label, bytes):
        return b"y" + label
    return b"j" + json.dumps(label, sort_keys=True, default=str).encode("utf-8", "surrogatepass")


def digests(labels: Sequence[Any]) -> NDArray[np.uint64]:
    """[n, 2]: the digest of each label. Equal neighbours cost one."""
    found: list[bytes] = []
    known: dict[Any, bytes] = {}
    for label in labels:
        try:
            key = (type(label), label)
            code = known.get(key)
        except TypeError:
            found.append(digest(label))
            continue
        if code is None:
            if len(known) > 4096:
                known.clear()
            code = known[key] = digest(label)
        found.append(code)
    return np.frombuffer(b"".join(found), dtype=np.uint64).reshape(-1, 2)

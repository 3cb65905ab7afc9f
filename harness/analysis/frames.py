"""The rows of a frame as records with named fields."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Iterator
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> Iterator[Any]:
    """``frame.itertuples()``, with one record class for all frames of the same columns: making the class costs more
    than the rows of a small frame."""
    made = _record(tuple(str(name) for name in frame.columns))
    return map(made, frame.index, *(frame.iloc[:, place] for place in range(frame.shape[1])))


@functools.cache
def _record(columns: tuple[str, ...]) -> Any:
    return namedtuple("Record", ("Index", *columns), rename=True)


def grouped(frame: pd.DataFrame, by: str | list[str], **options: Any) -> Iterator[tuple[Any, pd.DataFrame]]:
    """``frame.groupby(by, **options)``: key and rows of each group."""
    return iter(frame.groupby(by, **options))

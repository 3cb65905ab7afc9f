"""The rows of a frame as records with named fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> Iterator[Any]:
    """``frame.itertuples()`` for readers who know the columns' types better than the stubs do."""
    return iter(frame.itertuples())


def grouped(frame: pd.DataFrame, by: str | list[str], **options: Any) -> Iterator[tuple[Any, pd.DataFrame]]:
    """``frame.groupby(by, **options)``: key and rows of each group."""
    return iter(frame.groupby(by, **options))

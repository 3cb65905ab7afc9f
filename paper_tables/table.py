"""What a table is: rows and columns of cells that know their value, uncertainty, runs and published counterpart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

ABSENT = "\N{EN DASH}"


@dataclass(frozen=True)
class Cell:
    """One entry. ``value`` and ``published`` are in the unit of the column (percent, steps, ...).

    value: our number, a text, or None; then ``why`` says why it is empty (not run, failed, not evaluated, ...).
    low, high: its interval, if there is one. n, run_ids: the runs behind it.
    published: the published number, None when it is not published. published_n: the runs behind that.
    verdict: what the comparison says (inside, outside, insufficient, not run, not published), with ``reason``.
    best: distinguishable from every other method of its section, so that it may stand out.
    """

    value: float | str | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    run_ids: tuple[str, ...] = ()
    why: str = ""
    published: float | str | None = None
    published_n: int | None = None
    verdict: str = ""
    reason: str = ""
    best: bool = False

    @property
    def difference(self) -> float | None:
        """Ours minus published, None unless both are numbers."""
        if isinstance(self.value, str) or isinstance(self.published, str):
            return None
        return None if self.value is None or self.published is None else self.value - self.published

    def __post_init__(self) -> None:
        for name in ("value", "low", "high", "published"):
            number = getattr(self, name)
            if isinstance(number, float) and math.isnan(number):
                object.__setattr__(self, name, None)


@dataclass(frozen=True)
class Column:
    """``key`` names the cells; ``decimals`` how numbers are shown; ``unit`` stands in the heading."""

    key: str
    label: str
    unit: str = ""
    decimals: int = 2

    @property
    def heading(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


@dataclass(frozen=True)
class Row:
    """``section`` groups rows (a model); rows of one section stand together."""

    label: str
    cells: dict[str, Cell]
    section: str = ""


@dataclass(frozen=True)
class Table:
    """``name`` is the file name, ``title`` what it shows, ``caption`` how to read it, ``notes`` below it."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    row_heading: str = "method"
    notes: tuple[str, ...] = ()
    paper_item: str = ""
    sources: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        keys = {column.key for column in self.columns}
        for row in self.rows:
            unknown = set(row.cells) - keys
            if unknown:
                raise ValueError(f"table {self.name}, row {row.label}: cells without a column: {sorted(unknown)}")

    def cell(self, row: Row, column: Column) -> Cell:
        return row.cells.get(column.key, Cell(why="not applicable"))

    def sections(self) -> list[str]:
        return list(dict.fromkeys(row.section for row in self.rows))

    def run_ids(self) -> list[str]:
        """Every run behind any cell, sorted."""
        return sorted({name for row in self.rows for cell in row.cells.values() for name in cell.run_ids})


def texts(**cells: str) -> dict[str, Cell]:
    """Cells of a table of words."""
    return {key: Cell(value=value) for key, value in cells.items()}


def shown(value: float | str | None, decimals: int) -> str:
    """A number with fixed decimals (no negative zero), a text as it is, a dash for nothing."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def interval_text(cell: Cell, decimals: int) -> str:
    """``[low, high]`` or nothing."""
    if cell.low is None or cell.high is None:
        return ""
    return f"[{shown(cell.low, decimals)}, {shown(cell.high, decimals)}]"


Shows = Literal["ours", "published", "both"]


def shows(table: Table) -> Shows:
    """What the cells hold: ours alone, published numbers alone (no run of ours so far), or ours beside them."""
    if not any(cell.published is not None for cell in _cells(table)):
        return "ours"
    return "both" if any(cell.value is not None for cell in _cells(table)) else "published"


def _cells(table: Table) -> Iterable[Cell]:
    for row in table.rows:
        yield from row.cells.values()

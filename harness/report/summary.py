"""The first lines of the page: what was run, what holds, and how fast each method learnt the format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.report.claims import ClaimsView

SPEED = "table_learning_speed"
DASH = "\N{EN DASH}"


@dataclass(frozen=True)
class Speed:
    """Sections of the learning-speed table side by side: per method ``median (reached)`` in each, in their order."""

    sections: Sequence[str]
    notes: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True)
class Summary:
    lines: Sequence[str]
    speed: Speed | None


def summary(runs: pd.DataFrame, published: int, claims: Sequence[ClaimsView], tables: Sequence[Any]) -> Summary:
    """``runs``: ours, rows of the index. ``published``: how many published runs there are."""
    lines = [_runs(runs, published)]
    for view in claims:
        if view.judged:
            total = sum(view.counts.values())
            counts = ", ".join(f"{name} {count}" for name, count in view.counts.items())
            lines.append(f"{view.title}, of {total} claims of the paper: {counts}.")
    return Summary(lines, _speed(tables))


def _runs(runs: pd.DataFrame, published: int) -> str:
    if runs.empty:
        return f"No run of ours yet; {published} published runs."
    parts = []
    for scale, part in runs.groupby("scale", sort=True):
        states = Counter(str(state) for state in part["state"])
        parts.append(f"{len(part)} at {scale} scale ({', '.join(f'{n} {name}' for name, n in sorted(states.items()))})")
    return f"Runs of ours: {'; '.join(parts)}. Published runs: {published}."


def _speed(tables: Sequence[Any]) -> Speed | None:
    table = next((item for item in tables if item["name"] == SPEED), None)
    if table is None or not table["rows"]:
        return None
    sections = list(dict.fromkeys(row["section"] for row in table["rows"]))
    methods = list(dict.fromkeys(row["label"] for row in table["rows"]))
    cells = {(row["section"], row["label"]): row["cells"] for row in table["rows"]}
    rows = [(method, [_crossing(cells.get((section, method))) for section in sections]) for method in methods]
    return Speed(sections, table["notes"], rows)


def _crossing(cells: Any) -> str:
    if cells is None:
        return DASH
    median = cells["median"]["value"]
    reached = cells["reached"]["value"]
    return f"{'not by half' if median is None else format(median, 'g')} ({reached})"

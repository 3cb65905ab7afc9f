"""What all figures share: type, lines, sizes, panels without data, the legend."""

from __future__ import annotations

import math
from typing import Any, Final

from matplotlib.figure import Figure

from figures.looks import look

RC: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "dara-harness",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "path.simplify": False,
}
LEGEND_HEIGHT: Final = 0.45
LEGEND_ENTRY: Final = 1.25
NARROWEST: Final = 4.2
"""Inches."""
EMPTY: Final = "empty"
NO_DATA: Final = "no data yet: see the caption"


def new_figure(columns: int, rows: int, *, width: float = 3.3, height: float = 2.4) -> tuple[Figure, Any]:
    """A figure of ``rows`` x ``columns`` panels of ``width`` x ``height`` inches, and its axes [rows, columns]."""
    figure = Figure(figsize=(width * columns, height * rows + LEGEND_HEIGHT), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, axes


def leave_out(axis: Any, reason: str) -> None:
    """Say in a panel why it has no data. :func:`close_gaps` takes out rows and columns that have such panels alone."""
    axis.set_gid(EMPTY)
    axis.text(0.5, 0.5, reason, ha="center", va="center", transform=axis.transAxes, color="#666666", wrap=True)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)


def close_gaps(figure: Figure, axes: Any) -> None:
    """Take out rows and columns without data; the panels that stay keep their size, titles and labels. A figure without
    any data becomes one line that says so."""
    rows, columns = axes.shape
    empty = [[axis.get_gid() == EMPTY for axis in row] for row in axes]
    kept_rows = [row for row in range(rows) if not all(empty[row])]
    kept_columns = [column for column in range(columns) if not all(empty[row][column] for row in range(rows))]
    width, height = figure.get_size_inches()
    if not kept_rows:
        for axis in axes.flat:
            axis.remove()
        figure.set_size_inches(3.3, 0.5)
        figure.text(0.5, 0.5, NO_DATA, ha="center", va="center", color="#666666")
        return
    panel = width / columns, (height - LEGEND_HEIGHT) / rows
    labels = [axes[row][0].get_ylabel() for row in range(rows)]
    titles = [axes[0][column].get_title() for column in range(columns)]
    below = [next((name for row in range(rows) if (name := axes[row][c].get_xlabel())), "") for c in range(columns)]
    grid = figure.add_gridspec(len(kept_rows), len(kept_columns))
    for row in range(rows):
        for column in range(columns):
            axis = axes[row][column]
            if row not in kept_rows or column not in kept_columns:
                axis.remove()
                continue
            place = kept_rows.index(row), kept_columns.index(column)
            axis.set_subplotspec(grid[place])
            if place[0] == 0:
                axis.set_title(titles[column])
            if place[1] == 0 and not axis.get_ylabel():
                axis.set_ylabel(labels[row])
            if empty[row][column]:
                axis.set_xlabel("")
                axis.set_ylabel(axis.get_ylabel() if place[1] == 0 else "")
    for column in kept_columns:
        lowest = max(row for row in kept_rows if not empty[row][column])
        axes[lowest][column].set_xlabel(below[column])
    width = max(panel[0] * len(kept_columns), min(width, NARROWEST))
    figure.set_size_inches(width, panel[1] * len(kept_rows) + LEGEND_HEIGHT)


def legend_below(figure: Figure, methods: list[str], extra: list[Any] | None = None) -> None:
    """One legend for the whole figure: methods by colour and marker, then ``extra`` handles."""
    from matplotlib.lines import Line2D

    handles: list[Any] = [
        Line2D([], [], color=look(name).color, marker=look(name).marker, markersize=4, label=look(name).label)
        for name in methods
    ]
    handles += extra or []
    if handles:
        width, height = figure.get_size_inches()
        columns = max(1, min(len(handles), int((width - 0.2) / LEGEND_ENTRY)))
        rows = math.ceil(len(handles) / columns)
        columns = math.ceil(len(handles) / rows)
        figure.set_size_inches(width, height + 0.2 * (rows - 1))
        figure.legend(handles=handles, loc="outside lower center", ncols=columns)

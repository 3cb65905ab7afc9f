"""Group-size figure: density of the format reward for each group size, with the 0.8 crossing of each run."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd

from figures import curves
from figures.looks import in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.crossings import crossings
from harness.analysis.results import Results

METHODS = ("grpo", "gdpo", "dara_sym", "dara_asym")
SIZES = (4, 8, 16, 32)
BELOW = {method: -0.06 - 0.055 * place for place, method in enumerate(METHODS)}
"""Where the crossings of each method stand, below the curves."""


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    notes = []
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(SIZES), 2, width=2.2, height=2.2)
        for column, size in enumerate(SIZES):
            axes[0][column].set_title(f"G = {size}")
            paper = results.ours(task="tool_calling", scale="paper", model="qwen2.5-1.5b", group_size=size)
            pocket = results.ours(task="tool_calling", scale="pocket", group_size=size)
            for row, (name, runs) in enumerate((("Qwen2.5-1.5B", paper), ("pocket", pocket))):
                axis, panel = axes[row][column], f"{name}, G = {size}"
                found = _published(axis, collector, panel, results, size) if row == 0 else set()
                found |= _ours(axis, collector, panel, results, runs[runs["method"].isin(METHODS)])
                if not found:
                    leave_out(axis, "not run")
                    missing.append(panel)
                else:
                    axis.set_ylim(-0.29, 1.02)
                    axis.set_yticks([0, 0.2, 0.4, 0.6, 0.8, 1])
                if len(runs):
                    notes.append(f"{panel}: {curves.count_note(runs[runs['method'].isin(METHODS)])}")
                if column == 0:
                    axis.set_ylabel(f"{name}\nformat density")
                if row == 1:
                    axis.set_xlabel("training step")
        close_gaps(figure, axes)
        legend_below(figure, list(METHODS), curves.kinds(collector))
    caption = (
        "Dashed lines: published medians over runs. Markers below zero: first step with a format reward of 0.8, one a "
        "run; open at the last step: never. Responses a step are the same at every G. "
        f"{curves.BAND_NOTE} Our runs: {'; '.join(notes) or 'none'}."
    )
    return Picture(
        "fig_group_size",
        "Format density by group size",
        caption,
        figure,
        collector.table(),
        "group-size figure",
        tuple(missing),
    )


def _published(axis: object, collector: curves.Collector, panel: str, results: Results, size: int) -> set[str]:
    parts = curves.published_parts(results, "density/format", study="group_size", group_size=size)
    for method in in_order(parts):
        curves.draw_published(axis, collector, panel, method, parts[method])
    runs = results.runs(source="published", study="group_size", group_size=size)
    _markers(axis, collector, panel, results, runs)
    return set(parts)


def _ours(axis: object, collector: curves.Collector, panel: str, results: Results, runs: pd.DataFrame) -> set[str]:
    found = set()
    for method in in_order(runs["method"]):
        own = results.curves("density/format", runs[runs["method"] == method])
        if own:
            curves.draw_runs(axis, collector, panel, method, own)
            found.add(method)
    _markers(axis, collector, panel, results, runs)
    return found


def _markers(axis: object, collector: curves.Collector, panel: str, results: Results, runs: pd.DataFrame) -> None:
    if runs.empty:
        return
    table = crossings(results, runs[runs["method"].isin(METHODS)], "reward/format", 0.8)
    for row in table.itertuples():
        appearance = look(str(row.method))
        reached = not pd.isna(row.at)
        step = row.at if reached else row.last
        axis.plot(  # type: ignore[attr-defined]
            [step],
            [BELOW[str(row.method)]],
            marker=appearance.marker,
            markersize=4,
            color=appearance.color,
            markerfacecolor=appearance.color if reached else "white",
            linestyle="none",
            clip_on=False,
        )
        series = "crossing" if reached else "never"
        collector.add(panel, str(row.method), series, pd.Series([0.8], index=[step]), str(row.run_id))

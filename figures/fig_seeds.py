"""Spread over seeds: final format and correctness of each run."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd

from figures import curves
from figures.looks import MODELS, in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, new_figure
from harness.analysis.quantities import values
from harness.analysis.results import Results

PERCENT = 100.0
MOST_SLANTED = 8
"""More labels than these stand upright."""


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    pocket = results.ours(task="tool_calling", scale="pocket", group_size=4)
    settings = []
    for model in ("qwen2.5-1.5b", "qwen2.5-3b"):
        runs = results.runs(source="published", study="tool_calling_main", model=model)
        measures = (("bfcl_v4:accuracy/average", "BFCL accuracy (%)"), ("bfcl_v4:format/average", "BFCL format (%)"))
        settings.append((f"{MODELS[model]}, published", runs, measures, PERCENT))
    settings.append(
        ("pocket, ours", pocket, (("reward/correctness", "correctness"), ("reward/format", "format reward")), 1.0)
    )
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(settings), 2, width=2.9, height=2.2)
        for column, (title, runs, measures, factor) in enumerate(settings):
            axes[0][column].set_title(title)
            for row, (quantity, label) in enumerate(measures):
                axis, panel = axes[row][column], f"{title}, {label}"
                table = values(results, runs, quantity) if len(runs) else pd.DataFrame(columns=["value"])
                table = table.dropna(subset=["value"])
                if table.empty:
                    leave_out(axis, "not run")
                    missing.append(panel)
                    continue
                _draw(axis, collector, panel, table, factor)
                axis.set_ylabel(label)
        close_gaps(figure, axes)
    caption = (
        "One marker a run at its last step (training rewards: mean of the last five steps), with the mean as a bar. "
        "Every run with a value is shown, also those that published means leave out. "
        f"Our runs: {curves.count_note(pocket)}."
    )
    return Picture(
        "fig_seeds", "Spread over seeds", caption, figure, collector.table(), "seed selection", tuple(missing)
    )


def _draw(axis: object, collector: curves.Collector, panel: str, table: pd.DataFrame, factor: float) -> None:
    methods = in_order(table["method"])
    for place, method in enumerate(methods):
        appearance = look(method)
        part = table[table["method"] == method].sort_values(["seed", "run_id"])
        points = part["value"].to_numpy(float) * factor
        offsets = [(number - (len(points) - 1) / 2) * 0.09 for number in range(len(points))]
        axis.plot(  # type: ignore[attr-defined]
            [place + offset for offset in offsets],
            points,
            marker=appearance.marker,
            markersize=4,
            color=appearance.color,
            linestyle="none",
        )
        axis.plot([place - 0.32, place + 0.32], [points.mean()] * 2, color=appearance.color)  # type: ignore[attr-defined]
        for run_id, seed, value in zip(part["run_id"], part["seed"], points, strict=True):
            index = [-1 if pd.isna(seed) else int(seed)]
            collector.add(panel, method, "seed", pd.Series([value], index=index), str(run_id))
    labels = [look(method).label for method in methods]
    crowded = len(methods) > MOST_SLANTED
    axis.set_xticks(  # type: ignore[attr-defined]
        range(len(methods)), labels, rotation=90 if crowded else 35, ha="center" if crowded else "right"
    )
    axis.grid(axis="x", visible=False)  # type: ignore[attr-defined]

"""Time to a format reward of 0.8: one marker a run, open where it never came, and the Kaplan-Meier median."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd

from figures import curves
from figures.looks import MODELS, in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, new_figure
from harness.analysis.crossings import as_crossings, crossings
from harness.analysis.results import Results
from harness.analysis.survival import survival

LEVEL = 0.8


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    settings: list[tuple[str, pd.DataFrame]] = []
    for model in ("qwen2.5-1.5b", "qwen2.5-3b"):
        runs = results.runs(source="published", study="tool_calling_main", model=model)
        settings.append((f"{MODELS[model]}, published", runs))
        mine = results.ours(task="tool_calling", scale="paper", model=model, group_size=4)
        if len(mine):
            settings.append((f"{MODELS[model]}, ours", mine))
    settings.append(("pocket, ours", results.ours(task="tool_calling", scale="pocket", group_size=4)))
    notes = []
    with mpl.rc_context(RC):
        rows = max(len(set(runs["method"])) for _, runs in settings)
        figure, axes = new_figure(len(settings), 1, width=2.9, height=max(1.6, 0.36 * rows + 0.7))
        for axis, (title, runs) in zip(axes[0], settings, strict=True):
            axis.set_title(title)
            runs = runs[runs["method"] != "base"]
            table = crossings(results, runs, "reward/format", LEVEL) if len(runs) else pd.DataFrame()
            if table.empty or not (table["last"] > 0).any():
                leave_out(axis, "not run")
                missing.append(title)
                continue
            notes.append(f"{title}: {_draw(axis, collector, title, table)}")
            axis.set_xlabel("first step with format reward \u2265 0.8")
        close_gaps(figure, axes)
    caption = (
        "One marker a run (vertical offsets only separate them); open: never, at the last observed step; a thin line "
        "leads back to the last step without it where a run was observed at few steps only. Bar: "
        f"Kaplan-Meier median over runs, absent when half of the runs never came. Reached: {'; '.join(notes)}."
    )
    return Picture(
        "fig_time_to_threshold",
        "Time to a format reward of 0.8",
        caption,
        figure,
        collector.table(),
        "learning speed",
        tuple(missing),
    )


def _draw(axis: object, collector: curves.Collector, panel: str, table: pd.DataFrame) -> str:
    methods = in_order(table["method"])
    counts = []
    for place, method in enumerate(methods):
        appearance = look(method)
        part = table[(table["method"] == method) & (table["last"].notna() | table["at"].notna())]
        part = part.sort_values(["seed", "run_id"])
        for number, row in enumerate(part.itertuples()):
            reached = not pd.isna(row.at)
            step = row.at if reached else row.last
            height = place + (number - (len(part) - 1) / 2) * min(0.16, 0.7 / max(len(part), 1))
            curves.mark(axis, step, height, appearance, filled=reached)
            if reached and step - row.after > 1:
                axis.plot([row.after + 1, step], [height] * 2, color=appearance.color, linewidth=0.7)  # type: ignore[attr-defined]
            series = "crossing" if reached else "never"
            collector.add(panel, method, series, pd.Series([LEVEL], index=[step]), str(row.run_id))
        found = survival(as_crossings(part))
        if found.median == found.median and found.median != float("inf"):
            axis.plot(  # type: ignore[attr-defined]
                [found.median] * 2, [place - 0.38, place + 0.38], color=appearance.color, linewidth=1.6
            )
            collector.add(panel, method, "Kaplan-Meier median", pd.Series([LEVEL], index=[found.median]))
        counts.append(f"{appearance.label} {found.reached}/{len(part)}")
    axis.set_yticks(range(len(methods)), [look(method).label for method in methods])  # type: ignore[attr-defined]
    axis.set_ylim(len(methods) - 0.4, -0.6)  # type: ignore[attr-defined]
    axis.set_xlim(0, 1.06 * float(table[["at", "last"]].max().max()))  # type: ignore[attr-defined]
    axis.grid(axis="y", visible=False)  # type: ignore[attr-defined]
    return ", ".join(counts)

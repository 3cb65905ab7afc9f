"""Held-out maths every 10 steps: macro accuracy and the share of responses over the limit."""

from __future__ import annotations

import matplotlib as mpl

from figures import curves
from figures.looks import in_order
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.results import Results

PERCENT = 100.0
PAPER = (("accuracy", "macro accuracy (%)"), ("exceed", "over 4,000 tokens (%)"))
POCKET = (("reward/correctness", "correct (%)"), ("reward/length", "within the limit (%)"))


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    notes = []
    settings = [
        ("DeepSeek-R1-7B, five benchmarks", results.ours(task="maths", model="r1-7b"), "maths", PAPER),
        ("pocket arithmetic", results.ours(task="maths", scale="pocket"), "pocket", POCKET),
    ]
    with mpl.rc_context(RC):
        figure, axes = new_figure(2, 2)
        for column, (title, runs, benchmark, measures) in enumerate(settings):
            axes[0][column].set_title(title)
            notes.append(f"{title}: {curves.count_note(runs)}")
            for row, (metric, label) in enumerate(measures):
                axis, panel = axes[row][column], f"{title}, {label}"
                found = set()
                for method in in_order(runs["method"]):
                    own = curves.evaluation_curves(results, runs[runs["method"] == method], benchmark, metric)
                    if own:
                        curves.draw_runs(axis, collector, panel, method, own, PERCENT)
                        found.add(method)
                axis.set_ylabel(label)
                if not found:
                    leave_out(axis, "not evaluated,\ncurves not published" if benchmark == "maths" else "not evaluated")
                    missing.append(panel)
                elif row == 1:
                    axis.set_xlabel("training step")
                drawn |= found
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn))
    caption = (
        "The paper draws these curves for DeepSeek-R1-7B; their values are not in the public record, only the first "
        f"checkpoint with 95 % compliance (DARA 50, GDPO 70). {curves.BAND_NOTE} Our runs: {'; '.join(notes)}."
    )
    return Picture(
        "fig_held_out",
        "Held-out maths during training",
        caption,
        figure,
        collector.table(),
        "held-out figure",
        tuple(missing),
    )

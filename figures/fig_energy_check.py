"""The energy identity on real batches: E against B pi (G - 1), every step of every run of ours."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd

from figures import curves
from figures.looks import in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.density import metrics_table
from harness.analysis.results import Results


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    settings = [
        (f"{task.replace('_', ' ')}, {scale}", results.ours(task=task, scale=scale))
        for scale in ("paper", "pocket")
        for task in ("tool_calling", "maths")
    ]
    settings = [item for item in settings if len(item[1])] or settings[2:3]
    largest = 0.0
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(settings), 1, width=3.0, height=2.6)
        for axis, (title, runs) in zip(axes[0], settings, strict=True):
            axis.set_title(title)
            if runs.empty:
                leave_out(axis, "not run")
                missing.append(title)
                continue
            for method in in_order(runs["method"]):
                deviation = _draw(axis, collector, title, results, runs[runs["method"] == method], method)
                largest = max(largest, deviation)
                drawn.add(method)
            end = axis.get_xlim()[1]
            axis.plot([0, end], [0, end], color="#333333", linewidth=0.6, linestyle=":")
            axis.set_xlabel("B x density x (G - 1)")
        axes[0][0].set_ylabel("energy")
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn))
    caption = (
        "One point per step, run and channel. Dotted: equality, which holds exactly for eps = 0 (arXiv 2610.00574, "
        f"Eq. 5). Largest relative difference: {largest:.2g}."
    )
    return Picture(
        "fig_energy_check", "Energy identity", caption, figure, collector.table(), "energy check", tuple(missing)
    )


def _draw(
    axis: object, collector: curves.Collector, panel: str, results: Results, runs: pd.DataFrame, method: str
) -> float:
    """Returns the largest relative difference of the two sides."""
    largest = 0.0
    for run in runs.itertuples():
        table = metrics_table(results, str(run.run_id))
        channels = [name.removeprefix("energy/") for name in table.columns if name.startswith("energy/")]
        if pd.isna(run.responses_per_step) or pd.isna(run.group_size):
            continue
        groups = table.get("filter/kept", float(run.responses_per_step) / float(run.group_size))
        for channel in channels:
            expected = groups * table[f"density/{channel}"] * (float(run.group_size) - 1)
            energy = table[f"energy/{channel}"]
            axis.plot(  # type: ignore[attr-defined]
                expected, energy, marker=".", markersize=2, linestyle="none", color=look(method).color, alpha=0.5
            )
            collector.add(
                panel, method, f"energy of {channel}", pd.Series(energy.to_numpy(), expected), str(run.run_id)
            )
            above = expected > 0
            if above.any():
                largest = max(largest, float(np.nanmax(np.abs(energy[above] / expected[above] - 1))))
    return largest

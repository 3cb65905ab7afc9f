"""Accuracy against the share of over-long responses, with lines of equal joint score."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd

from figures import curves
from figures.looks import MODELS, in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.quantities import values
from harness.analysis.results import Results

PERCENT = 100.0


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    with mpl.rc_context(RC):
        figure, axes = new_figure(3, 1, width=2.9, height=2.7)
        for axis, model in zip(axes[0], ("r1-1.5b", "qwen3-4b", "r1-7b"), strict=True):
            title = MODELS[model]
            axis.set_title(title)
            published = results.runs(source="published", study="maths_main", model=model)
            mine = results.ours(task="maths", scale="paper", model=model)
            places = [_place(results, published, "published"), _place(results, mine, "ours")]
            points = pd.concat(places, ignore_index=True)
            if points.empty:
                leave_out(axis, "not run,\nnot published")
                missing.append(title)
                continue
            _draw(axis, collector, title, points)
            drawn |= set(points["method"]) - {"base"}
            axis.set_xlabel("over 4,000 tokens (%)")
        axes[0][0].set_ylabel("accuracy (%)")
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn))
    caption = (
        "Macro means over five benchmarks: published at step 50 (open), ours at the last step (filled). Dotted: "
        "equal accuracy times the share within the limit, which is the joint score if being right and being short were "
        "independent. The base model is far to the right of each panel and left out where it would flatten the rest."
    )
    return Picture(
        "fig_trade_off",
        "Accuracy and over-long responses",
        caption,
        figure,
        collector.table(),
        "trade-off",
        tuple(missing),
    )


def _place(results: Results, runs: pd.DataFrame, source: str) -> pd.DataFrame:
    """One row a run with accuracy and exceed in percent."""
    if runs.empty:
        return pd.DataFrame(columns=["run_id", "method", "accuracy", "exceed", "source"])
    table = values(results, runs, "maths:accuracy")[["run_id", "method", "value"]].rename(columns={"value": "accuracy"})
    table["exceed"] = values(results, runs, "maths:exceed")["value"].to_numpy(float)
    table = table.dropna(subset=["accuracy", "exceed"])
    table[["accuracy", "exceed"]] *= PERCENT
    return table.assign(source=source)


def _draw(axis: object, collector: curves.Collector, panel: str, points: pd.DataFrame) -> None:
    near = points[points["method"] != "base"]
    for row in near.itertuples():
        appearance = look(str(row.method))
        axis.plot(  # type: ignore[attr-defined]
            [row.exceed],
            [row.accuracy],
            marker=appearance.marker,
            color=appearance.color,
            markerfacecolor="white" if row.source == "published" else appearance.color,
            linestyle="none",
            markersize=6,
        )
        curve = pd.Series([row.accuracy], index=[row.exceed])
        collector.add(panel, str(row.method), str(row.source), curve, str(row.run_id))
    right = float(near["exceed"].max()) * 1.12 + 0.5
    low, high = float(near["accuracy"].min()) - 0.8, float(near["accuracy"].max()) + 0.8
    shares = np.linspace(0, right, 60)
    for joint in np.arange(np.floor(low * (1 - right / 100)), high, 1.0):
        line = joint / (1 - shares / PERCENT)
        axis.plot(shares, line, color="#bbbbbb", linewidth=0.6, linestyle=":")  # type: ignore[attr-defined]
    axis.set_xlim(0, right)  # type: ignore[attr-defined]
    axis.set_ylim(low, high)  # type: ignore[attr-defined]

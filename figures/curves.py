"""Curves over training steps: each seed thin, the median thick, its band shaded, published curves dashed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from figures.looks import Look, look
from harness.analysis.crossings import crossings
from harness.analysis.intervals import curve_band
from harness.analysis.results import Results
from harness.analysis.thresholds import first_crossing

DASHES: Final = (0, (4, 1.5))
GREY: Final = "#333333"
MOST_WITH_SPREAD: Final = 8
BAND_NOTE = (
    "Thin lines: seeds. Thick: median over seeds; band: its 95 % bootstrap over whole runs (n of at least 3); panels "
    f"with more than {MOST_WITH_SPREAD} methods show medians alone."
)


class Collector:
    """Gathers the numbers that are drawn, for the CSV behind a figure."""

    def __init__(self) -> None:
        self._rows: list[pd.DataFrame] = []

    def add(self, panel: str, method: str, series: str, curve: pd.Series, run_id: str = "") -> None:
        """``curve``: values by step."""
        rows = pd.DataFrame({"step": curve.index.to_numpy(), "value": curve.to_numpy(float)})
        self._rows.append(rows.assign(panel=panel, method=method, series=series, run_id=run_id))

    def table(self) -> pd.DataFrame:
        columns = ["panel", "method", "series", "run_id", "step", "value"]
        filled = [rows for rows in self._rows if len(rows)]
        return pd.concat(filled, ignore_index=True)[columns] if filled else pd.DataFrame(columns=columns)


def kinds(collector: Collector) -> list[Any]:
    """Handles for a legend: what solid and dashed lines are, where published curves are drawn."""
    from matplotlib.lines import Line2D

    series = set(collector.table()["series"])
    if not any(name.startswith("published") for name in series):
        return []
    handles = [Line2D([], [], color=GREY, linestyle=DASHES, linewidth=1.3, label="published")]
    if "seed" in series:
        handles.append(Line2D([], [], color=GREY, linewidth=1.6, label="ours"))
    return handles


def draw_runs(
    axis: Any,
    collector: Collector,
    panel: str,
    method: str,
    curves: Mapping[str, pd.Series],
    scale: float = 1.0,
    *,
    methods: int = 1,
) -> None:
    """Our runs of one method; ``scale`` multiplies the values (100 for percent). With more than
    :data:`MOST_WITH_SPREAD` ``methods`` in the panel the medians alone are drawn; the numbers are collected all the
    same."""
    color = look(method).color
    spread = methods <= MOST_WITH_SPREAD
    curves = {name: curve * scale for name, curve in sorted(curves.items())}
    for name, curve in curves.items():
        if spread:
            axis.plot(curve.index, curve, color=color, linewidth=0.6, alpha=0.45)
        collector.add(panel, method, "seed", curve, name)
    if len(curves) < 2:
        for curve in curves.values():
            axis.plot(curve.index, curve, color=color, linewidth=1.6)
        return
    band = curve_band(curves, (panel, method))
    steps = band["step"]
    axis.plot(steps, band["estimate"], color=color, linewidth=1.6)
    collector.add(panel, method, "median", pd.Series(band["estimate"].to_numpy(), index=steps))
    if band["low"].notna().any():
        if spread:
            axis.fill_between(steps, band["low"], band["high"], color=color, alpha=0.15, linewidth=0)
        for side in ("low", "high"):
            collector.add(panel, method, side, pd.Series(band[side].to_numpy(), index=steps))


def draw_published(
    axis: Any, collector: Collector, panel: str, method: str, parts: Mapping[str, pd.Series], scale: float = 1.0
) -> None:
    """A published curve: ``parts`` has ``median`` (or ``mean``) and, where printed, ``q25`` and ``q75``."""
    color = look(method).color
    for kind in ("median", "mean"):
        if kind in parts:
            curve = parts[kind] * scale
            axis.plot(curve.index, curve, color=color, linewidth=1.3, linestyle=DASHES)
            collector.add(panel, method, f"published {kind}", curve)
    if "q25" in parts and "q75" in parts:
        axis.fill_between(
            parts["q25"].index, parts["q25"] * scale, parts["q75"] * scale, color=color, alpha=0.1, linewidth=0
        )
        for kind in ("q25", "q75"):
            collector.add(panel, method, f"published {kind}", parts[kind] * scale)


def mark(axis: Any, x: float, y: float, appearance: Look, *, filled: bool, **style: Any) -> None:
    """The marker of a method at one point, open where it is not ``filled``."""
    face = appearance.color if filled else "white"
    kind = {"marker": appearance.marker, "markersize": 4, "color": appearance.color, "markerfacecolor": face}
    axis.plot([x], [y], linestyle="none", **(kind | style))


def mark_crossings(
    axis: Any, collector: Collector, panel: str, method: str, curves: Mapping[str, pd.Series], level: float
) -> None:
    """A marker where each run first reaches ``level``, an open one at its end where it never does."""
    appearance = look(method)
    for name, curve in sorted(curves.items()):
        found = first_crossing(curve, level)
        reached = found.at is not None
        step = found.at if reached else found.last
        mark(
            axis, step, level, appearance, filled=reached, markersize=4.5, markeredgewidth=0.9, clip_on=False, zorder=5
        )
        collector.add(panel, method, "crossing" if reached else "never", pd.Series([level], index=[step]), name)


def mark_published_crossings(
    axis: Any, collector: Collector, panel: str, results: Results, runs: pd.DataFrame, metric: str, level: float
) -> None:
    """A tick at ``level`` for each published run, where it first reached it; runs that never did have none."""
    table = crossings(results, runs, metric, level) if len(runs) else pd.DataFrame(columns=["at"])
    for row in table[table["at"].notna()].itertuples():
        axis.plot([row.at], [level], marker="|", markersize=8, color=look(str(row.method)).color, linestyle="none")
        collector.add(panel, str(row.method), "published crossing", pd.Series([level], index=[row.at]), str(row.run_id))


def published_parts(results: Results, metric: str, *, table: str = "metrics", **wanted: object) -> dict[str, Any]:
    """method -> kind (median, mean, q25, q75) -> curve, from the published summaries that have ``metric``."""
    index = results.index[(results.index["source"] == "published") & (results.index["kind"] != "run")]
    for column, value in wanted.items():
        index = index[index[column] == value]
    rows = getattr(results, table)
    rows = rows[(rows["metric"] == metric) & rows["run_id"].isin(set(index["run_id"])) & rows["step"].notna()]
    found: dict[str, Any] = {}
    labels = index.set_index("run_id")
    for run_id, part in rows.groupby("run_id", sort=True):
        if len(part) < 3:
            continue
        curve = pd.Series(part["value"].to_numpy(float), index=part["step"].to_numpy(int)).sort_index()
        found.setdefault(str(labels.at[run_id, "method"]), {})[str(labels.at[run_id, "kind"])] = curve
    return found


def evaluation_curves(results: Results, runs: pd.DataFrame, benchmark: str, metric: str) -> dict[str, pd.Series]:
    """Run id -> values of an evaluation by step."""
    rows = results.evals[
        (results.evals["benchmark"] == benchmark)
        & (results.evals["metric"] == metric)
        & results.evals["run_id"].isin(set(runs["run_id"]))
        & results.evals["step"].notna()
    ]
    return {
        str(name): pd.Series(part["value"].to_numpy(float), index=part["step"].to_numpy(int)).sort_index()
        for name, part in rows.groupby("run_id", sort=True)
    }


def count_note(runs: pd.DataFrame) -> str:
    """``gdpo 5, grpo 5 (2 unfinished)``."""
    if runs.empty:
        return "none"
    unfinished = int((runs["state"] != "done").sum())
    counts = runs["method"].value_counts().sort_index()
    text = ", ".join(f"{look(str(name)).label} {count}" for name, count in counts.items())
    return text + (f" ({unfinished} not finished)" if unfinished else "")


def as_series(values: Mapping[int, float]) -> pd.Series:
    return pd.Series(list(values.values()), index=np.array(list(values)))

"""Energy of length against correctness: under gdpo, and with density weights; the weight and its cap."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd

from figures import curves
from figures.looks import MODELS
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, new_figure
from harness.analysis.density import energy_ratio, first_cap_step, metrics_table, weighted_energy_ratio
from harness.analysis.results import Results

BEFORE, AFTER, WEIGHT = "#0072B2", "#CC3311", "#333333"


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    notes = []
    settings: list[tuple[str, pd.DataFrame, bool]] = []
    for model in ("r1-1.5b", "qwen3-4b", "r1-7b"):
        rows = results.runs(source="published", study="maths_energy", model=model)
        settings.append((f"{MODELS[model]}, published", rows, True))
    pocket = results.ours(task="maths", scale="pocket")
    settings.append(("pocket arithmetic, DARA-Asym", pocket[pocket["method"] == "dara_asym"].head(1), False))
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(settings), 2, width=2.4, height=2.1)
        for column, (title, runs, _) in enumerate(settings):
            top, bottom = axes[0][column], axes[1][column]
            top.set_title(title)
            if runs.empty:
                for axis in (top, bottom):
                    leave_out(axis, "not run")
                missing.append(title)
                continue
            run_id = str(runs["run_id"].iloc[0])
            cap = _draw(top, bottom, collector, title, metrics_table(results, run_id), run_id)
            notes.append(f"{title}: cap first binds at step {cap}" if cap is not None else f"{title}: never capped")
            bottom.set_xlabel("training step")
        axes[0][0].set_ylabel("energy, length / correctness")
        axes[1][0].set_ylabel("weight of length")
        close_gaps(figure, axes)
        _legend(figure)
    caption = (
        "Energy ratio of the two channels without weights (what gdpo sums) and with the squared density weight. Ratio "
        f"1 is balance. Below: the weight, its cap of 5 dotted. {'; '.join(notes)}."
    )
    return Picture(
        "fig_energy", "Advantage energy by channel", caption, figure, collector.table(), "energy figure", tuple(missing)
    )


def _draw(
    top: object, bottom: object, collector: curves.Collector, panel: str, table: pd.DataFrame, run_id: str
) -> int | None:
    before = table.get("energy_ratio/length/correctness/gdpo")
    after = table.get("energy_ratio/length/correctness/dara")
    if before is None or after is None:
        before = energy_ratio(table, "length", "correctness")
        after = weighted_energy_ratio(table, "length", "correctness")
    for name, curve, color in (("unweighted", before, BEFORE), ("weighted", after, AFTER)):
        curve = curve.dropna()
        top.plot(curve.index, curve, color=color, linewidth=1.1)  # type: ignore[attr-defined]
        collector.add(panel, "", f"energy ratio, {name}", curve, run_id)
    top.axhline(1, color="#333333", linewidth=0.6, linestyle=":")  # type: ignore[attr-defined]
    top.set_ylim(bottom=0)  # type: ignore[attr-defined]
    weight = table["weight/length"].dropna()
    bottom.plot(weight.index, weight, color=WEIGHT, linewidth=1.1)  # type: ignore[attr-defined]
    bottom.axhline(5, color="#333333", linewidth=0.6, linestyle=":")  # type: ignore[attr-defined]
    bottom.set_ylim(0.8, 5.3)  # type: ignore[attr-defined]
    collector.add(panel, "", "weight of length", weight, run_id)
    step = first_cap_step(table, "length")
    if step is not None:
        bottom.axvline(step, color="#999999", linewidth=0.8, linestyle="--")  # type: ignore[attr-defined]
    return step


def _legend(figure: object) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=BEFORE, label="without weights (GDPO)"),
        Line2D([], [], color=AFTER, label="with density weights"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)  # type: ignore[attr-defined]

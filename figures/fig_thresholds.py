"""Threshold curves: the stable crossing of each level of length compliance, 80 to 99 %."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd

from figures import curves
from figures.looks import MODELS, in_order, look
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.crossings import crossings
from harness.analysis.results import Results

LEVELS = (0.8, 0.9, 0.95, 0.97, 0.98, 0.99)


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    notes = []
    settings = [(MODELS[model], {"model": model, "task": "maths"}) for model in ("qwen3-4b", "r1-7b")]
    settings.append(("pocket arithmetic", {"task": "maths", "scale": "pocket"}))
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(settings), 1, width=2.9, height=2.6)
        for axis, (title, wanted) in zip(axes[0], settings, strict=True):
            axis.set_title(title)
            found: set[str] = set()
            if "model" in wanted:
                runs = results.runs(source="published", study="maths_thresholds", **wanted)
                found |= _draw(axis, collector, title, results, runs, published=True)
            mine = results.ours(**{"scale": "paper", **wanted})
            found |= _draw(axis, collector, title, results, mine, published=False)
            drawn |= found
            notes.append(f"{title}: {curves.count_note(mine)}")
            if not found:
                leave_out(axis, "not run")
                missing.append(title)
                continue
            axis.set_xticks(range(len(LEVELS)), [f"{level:.0%}" for level in LEVELS])
            axis.set_xlabel("length compliance")
            axis.set_ylim(bottom=0)
        axes[0][0].set_ylabel("first stable step")
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn), curves.kinds(collector))
    caption = (
        "First step t whose trailing 10-step mean of the length reward, before filtering, is at least the level and "
        "stays so through t + 20. Dashed: published (decoded from the page's figure). Never stably crossed: "
        f"open marker at the last step. Our runs: {'; '.join(notes)}."
    )
    return Picture(
        "fig_thresholds",
        "Steps to a stable length compliance",
        caption,
        figure,
        collector.table(),
        "threshold figure",
        tuple(missing),
    )


def _draw(
    axis: object, collector: curves.Collector, panel: str, results: Results, runs: pd.DataFrame, *, published: bool
) -> set[str]:
    if runs.empty:
        return set()
    table = pd.concat(
        [crossings(results, runs, "reward/length", level, rule="stable").assign(level=level) for level in LEVELS]
    )
    found = set()
    for (method, run_id), part in table.groupby(["method", "run_id"], sort=True):
        appearance = look(str(method))
        part = part.reset_index(drop=True)
        known = part[~(part["at"].isna() & ~(part["last"] > 0))]
        if known.empty:
            continue
        found.add(str(method))
        places = [LEVELS.index(level) for level in known["level"]]
        steps = known["at"].fillna(known["last"])
        reached = known["at"].notna().to_numpy()
        style = curves.DASHES if published else "-"
        axis.plot(places, steps, color=appearance.color, linestyle=style, linewidth=1.2)  # type: ignore[attr-defined]
        for place, step, filled in zip(places, steps, reached, strict=True):
            curves.mark(axis, place, step, appearance, filled=bool(filled))
        series = "published" if published else "seed"
        collector.add(panel, str(method), series, pd.Series(steps.to_numpy(), index=list(known["level"])), str(run_id))
    return found

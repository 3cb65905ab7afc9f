"""A grid of training curves: one row per metric, one column per setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl

from figures import curves
from figures.looks import in_order
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.results import Results


@dataclass(frozen=True)
class Setting:
    """A column: which of our runs, and which published ones, it shows. ``ours`` and ``published`` are filters."""

    title: str
    ours: dict[str, object]
    published: dict[str, object] | None = None


@dataclass(frozen=True)
class Measure:
    """A row: a training metric, and the level whose crossings are marked."""

    metric: str
    label: str
    level: float | None = None
    limits: tuple[float, float] | None = None
    reference: float | None = None


@dataclass(frozen=True)
class Words:
    name: str
    title: str
    caption: str
    paper_item: str = ""


POCKET = "pocket (generated task)"


def training_picture(
    results: Results,
    words: Words,
    settings: Sequence[Setting],
    measures: Sequence[Measure],
    *,
    methods: Sequence[str] | None = None,
    width: float = 3.3,
) -> Picture:
    """``methods``: only these; None draws every method that has runs or a published curve."""
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    counts = []
    with mpl.rc_context(RC):
        figure, axes = new_figure(len(settings), len(measures), width=width)
        for column, setting in enumerate(settings):
            runs = results.ours(**setting.ours)
            if methods is not None:
                runs = runs[runs["method"].isin(methods)]
            counts.append(f"{setting.title}: {curves.count_note(runs)}")
            for row, measure in enumerate(measures):
                axis = axes[row][column]
                panel = f"{setting.title}, {measure.label}"
                found = _draw(axis, collector, panel, results, runs, setting, measure, methods)
                drawn |= found
                if not found:
                    leave_out(axis, _reason(runs, setting))
                    missing.append(panel)
                elif measure.limits:
                    axis.set_ylim(*measure.limits)
                if row == 0:
                    axis.set_title(setting.title)
                if row == len(measures) - 1:
                    axis.set_xlabel("training step")
                if column == 0 or not (axes[row][0].lines):
                    axis.set_ylabel(measure.label)
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn), curves.kinds(collector))
    caption = f"{words.caption} {curves.BAND_NOTE} Dashed: published. Our runs: {'; '.join(counts)}."
    return Picture(words.name, words.title, caption, figure, collector.table(), words.paper_item, tuple(missing))


def _reason(runs: object, setting: Setting) -> str:
    if len(runs):  # type: ignore[arg-type]
        return "no such reward"
    return "not run" if setting.published is None else "not run,\ncurves not published"


def _draw(
    axis: object,
    collector: curves.Collector,
    panel: str,
    results: Results,
    runs: object,
    setting: Setting,
    measure: Measure,
    methods: Sequence[str] | None,
) -> set[str]:
    found: set[str] = set()
    published = {}
    if setting.published is not None:
        published = curves.published_parts(results, measure.metric, **setting.published)
    for method in in_order(published):
        if methods is None or method in methods:
            curves.draw_published(axis, collector, panel, method, published[method])
            found.add(method)
    if setting.published is not None and measure.level is not None:
        stated = results.runs(source="published", **setting.published)
        stated = stated[stated["method"].isin(found)]
        curves.mark_published_crossings(axis, collector, panel, results, stated, measure.metric, measure.level)
    for method in in_order(runs["method"]):  # type: ignore[index]
        own = results.curves(measure.metric, runs[runs["method"] == method])  # type: ignore[index]
        if own:
            curves.draw_runs(axis, collector, panel, method, own, methods=runs["method"].nunique())  # type: ignore[index]
            found.add(method)
            if measure.level is not None:
                curves.mark_crossings(axis, collector, panel, method, own, measure.level)
    if found and measure.level is not None:
        axis.axhline(measure.level, color="#333333", linewidth=0.6, linestyle=":")  # type: ignore[attr-defined]
    if found and measure.reference is not None:
        axis.axhline(measure.reference, color="#333333", linewidth=0.8, linestyle=":")  # type: ignore[attr-defined]
    return found

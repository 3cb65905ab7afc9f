"""Figure 2: accuracy and format on the benchmark every 10 steps: BFCL-v4, and the pocket task's held-out queries."""

from __future__ import annotations

import matplotlib as mpl

from figures import curves
from figures.looks import in_order
from figures.picture import Picture
from figures.style import RC, close_gaps, leave_out, legend_below, new_figure
from harness.analysis.results import Results

METHODS = ("grpo", "gdpo", "dvao", "gd2po_hard", "dara_sym", "dara_asym")
PERCENT = 100.0


def build(results: Results) -> Picture:
    collector = curves.Collector()
    missing: list[str] = []
    drawn: set[str] = set()
    paper = results.ours(task="tool_calling", scale="paper", model="qwen2.5-1.5b", group_size=4)
    pocket = results.ours(task="tool_calling", scale="pocket", group_size=4)
    pocket = pocket[pocket["method"].isin(METHODS)]
    with mpl.rc_context(RC):
        figure, axes = new_figure(2, 2)
        for row, (metric, label) in enumerate((("accuracy/average", "accuracy"), ("format/average", "format"))):
            axis, panel = axes[row][0], f"BFCL-v4, {label}"
            published = curves.published_parts(results, metric, table="evals", study="tool_calling_main")
            for method in in_order(published):
                curves.draw_published(axis, collector, panel, method, published[method], PERCENT)
            found = set(published) | _draw(axis, collector, panel, results, paper, "bfcl_v4", metric, PERCENT)
            drawn |= found
            _finish(axis, found, missing, panel, f"average {label} (%)", "not evaluated,\nnot published")
        for row, (metric, label, factor) in enumerate(
            (("reward/correctness", "correctness reward", 1.0), ("reward/format", "format (%)", PERCENT))
        ):
            axis, panel = axes[row][1], f"pocket, {label}"
            found = _draw(axis, collector, panel, results, pocket, "pocket", metric, factor)
            drawn |= found
            _finish(axis, found, missing, panel, label, "not evaluated")
        axes[0][0].set_title("BFCL-v4, Qwen2.5-1.5B-Instruct")
        axes[0][1].set_title("pocket, held-out queries")
        for axis in axes[1]:
            axis.set_xlabel("training step")
        close_gaps(figure, axes)
        legend_below(figure, in_order(drawn), curves.kinds(collector))
    caption = (
        f"Checkpoints every 10 steps. {curves.BAND_NOTE} Dashed: published mean; the runs behind a published point are "
        f"few and change with the step. Our runs: BFCL-v4: {curves.count_note(paper)}; pocket: "
        f"{curves.count_note(pocket)}."
    )
    return Picture(
        "fig02_bfcl",
        "Accuracy and format of the checkpoints",
        caption,
        figure,
        collector.table(),
        "Figure 2",
        tuple(missing),
    )


def _draw(
    axis: object,
    collector: curves.Collector,
    panel: str,
    results: Results,
    runs: object,
    benchmark: str,
    metric: str,
    factor: float,
) -> set[str]:
    found = set()
    for method in in_order(runs["method"]):  # type: ignore[index]
        own = curves.evaluation_curves(results, runs[runs["method"] == method], benchmark, metric)  # type: ignore[index]
        if own:
            curves.draw_runs(axis, collector, panel, method, own, factor)
            found.add(method)
    return found


def _finish(axis: object, found: set[str], missing: list[str], panel: str, label: str, reason: str) -> None:
    axis.set_ylabel(label)  # type: ignore[attr-defined]
    if not found:
        leave_out(axis, reason)
        missing.append(panel)

"""Learning speed: the first step with a format reward of 0.8, of every run and over runs."""

from __future__ import annotations

import math

import pandas as pd

from figures.looks import in_order
from harness.analysis.crossings import learning_speed
from harness.analysis.quantities import printed
from harness.analysis.results import Results
from paper_tables.cells import Cells, method_label, model_label, pocket_notes
from paper_tables.table import Cell, Column, Row, Table

LEVEL = 0.8
METRIC = "reward/format"


def build(results: Results) -> Table:
    cells = Cells(results)
    rows: list[Row] = []
    for model in ("qwen2.5-1.5b", "qwen2.5-3b"):
        theirs = results.runs(source="published", study="tool_calling_main", model=model)
        rows += _rows(results, theirs[theirs["method"] != "base"], f"{model_label(model)}, published")
        mine = cells.runs(task="tool_calling", scale="paper", model=model, group_size=4)
        rows += _rows(results, mine, f"{model_label(model)}, ours")
    pocket = cells.runs(task="tool_calling", scale="pocket", group_size=4)
    rows += _rows(results, pocket, "pocket, ours")
    return Table(
        name="table_learning_speed",
        title="First step with a format reward of 0.8",
        caption="Per seed in the order of the seeds; > marks a run that never came, at its last step; a range one that "
        "was observed at few steps only.",
        columns=(
            Column("per_seed", "per seed"),
            Column("reached", "reached"),
            Column("median", "Kaplan-Meier median", "steps", 1),
            Column("restricted", "restricted mean", "steps", 1),
            Column("curve", "of the median curve", "steps", 0),
        ),
        rows=tuple(rows),
        paper_item="learning speed",
        notes=(
            "Runs that never reach the level are censored, not left out. Restricted means share one horizon.",
            *pocket_notes(results, pocket),
        ),
    )


def _rows(results: Results, runs: pd.DataFrame, section: str) -> list[Row]:
    if runs.empty:
        return []
    table = learning_speed(results, runs, METRIC, LEVEL).set_index("method")
    rows = []
    for method in in_order(table.index):
        found = table.loc[method]
        names = tuple(found["run_ids"])
        rows.append(
            Row(
                method_label(method),
                {
                    "per_seed": Cell(value=", ".join(found["per_seed"]), n=len(names), run_ids=names),
                    "reached": Cell(value=f"{found['reached']}/{found['n']}", run_ids=names),
                    "median": _number(found["median"], found["median_low"], found["median_high"], names),
                    "restricted": _number(
                        found["restricted_mean"], found["restricted_mean_low"], found["restricted_mean_high"], names
                    ),
                    "curve": _of_curve(results, runs, method, found["of_median_curve"], names),
                },
                section,
            )
        )
    return rows


def _of_curve(results: Results, runs: pd.DataFrame, method: str, value: float | None, names: tuple[str, ...]) -> Cell:
    """The crossing of the median curve; for published runs the printed one (their curves are not public)."""
    if (runs["source"] == "ours").all():
        return _number(value, None, None, names)
    model = str(runs["model"].iloc[0])
    summaries = results.index[results.index["run_id"] == f"published:page-learning_speed-{model}-{method}"]
    stated = printed(results, summaries, f"first_step/{METRIC}@{LEVEL:g}")
    if stated.empty:
        return Cell(why="curves not public, none printed", run_ids=names)
    return Cell(value=float(stated["value"].iloc[0]), run_ids=tuple(stated["run_id"]))


def _number(value: float | None, low: float | None, high: float | None, names: tuple[str, ...]) -> Cell:
    if value is None or not math.isfinite(value):
        return Cell(why="not reached by half of the runs, or no curves", run_ids=names)
    bounds = [None if bound is None or not math.isfinite(bound) else float(bound) for bound in (low, high)]
    return Cell(value=float(value), low=bounds[0], high=bounds[1], run_ids=names)

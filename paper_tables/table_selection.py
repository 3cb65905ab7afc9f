"""Selected runs beside all runs: what leaving runs out does to the means."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from figures.looks import in_order
from harness.analysis.results import Results
from harness.analysis.selection import load_selection, summary
from paper_tables.cells import PERCENT, Cells, method_label, model_label
from paper_tables.table import Cell, Column, Row, Table

SELECTION = Path(__file__).with_name("selection.yaml")
ALL = "all"
QUANTITIES = (("bfcl_v4:accuracy/average@100", "accuracy"), ("bfcl_v4:format/average@100", "format"))


def build(results: Results) -> Table:
    cells = Cells(results)
    selection = load_selection(SELECTION)
    rows = []
    theirs = results.runs(source="published", study="tool_calling_main")
    theirs = theirs[theirs["method"] != "base"]
    sets = [("published", theirs)]
    for model in ("qwen2.5-1.5b", "qwen2.5-3b"):
        sets.append(("ours", cells.runs(task="tool_calling", scale="paper", model=model, group_size=4)))
    for source, runs in sets:
        if len(runs):
            rows += _rows(results, runs, source, selection)
    return Table(
        name="table_selection",
        title="All runs and selected runs, BFCL-v4 at step 100",
        caption="A row of selected runs stands below the row of all runs it was selected from.",
        columns=(
            Column("view", "runs"),
            Column("started", "started"),
            Column("accuracy", "Average acc", "%"),
            Column("accuracy_sd", "sample SD", "%"),
            Column("format", "Average fmt", "%"),
            Column("format_sd", "sample SD", "%"),
            Column("reason", "left out"),
        ),
        rows=tuple(rows),
        paper_item="seed selection",
    )


def _rows(results: Results, runs: pd.DataFrame, source: str, selection: object) -> list[Row]:
    tables = {
        label: summary(results, runs, quantity, selection).set_index(["model", "method", "view"])  # type: ignore[arg-type]
        for quantity, label in QUANTITIES
    }
    rows = []
    places = {method: place for place, method in enumerate(in_order(runs["method"]))}
    for key in sorted(tables["accuracy"].index, key=lambda key: (key[0], places[key[1]], key[2] != ALL)):
        model, method, view = key
        content: dict[str, Cell] = {"view": Cell(value=view)}
        for label, table in tables.items():
            found = table.loc[key]
            names = tuple(found["run_ids"])
            mean = None if pd.isna(found["mean"]) else float(found["mean"]) * PERCENT
            content[label] = Cell(
                value=mean,
                low=float(found["low"]) * PERCENT,
                high=float(found["high"]) * PERCENT,
                n=int(found["n"]),
                run_ids=names,
                why="" if mean is not None else "not evaluated",
            )
            spread = None if pd.isna(found["sd"]) else float(found["sd"]) * PERCENT
            content[f"{label}_sd"] = Cell(value=spread, run_ids=names, why="" if spread is not None else "one run")
            content["started"] = Cell(value=str(found["started"]))
            left_out = ", ".join(name.removeprefix("published:") for name in found["left_out"])
            content["reason"] = Cell(value=left_out) if left_out else Cell(why="")
        rows.append(Row(method_label(method), content, f"{model_label(model)}, {source}"))
    return rows

"""Table 3: maths at step 50, macro means over the five benchmarks."""

from __future__ import annotations

from harness.analysis.results import Results
from paper_tables.cells import Cells, method_label, methods_of, model_label, with_best
from paper_tables.table import Column, Row, Table

STEP = 50
QUANTITIES = (("accuracy", "Accuracy"), ("exceed", "Exceed"), ("joint", "Joint"))


def build(results: Results) -> Table:
    cells = Cells(results)
    rows: list[Row] = []
    for model in ("r1-1.5b", "qwen3-4b", "r1-7b"):
        mine = cells.runs(task="maths", scale="paper", model=model)
        printed = results.runs(source="published", study="maths_main", model=model)
        for method in methods_of(mine, printed):
            part = mine[mine["method"] == method]
            stated = printed[printed["method"] == method]
            run_id = str(stated["run_id"].iloc[0]) if len(stated) else None
            at = 0 if method == "base" else STEP
            found = {key: cells.cell(part, f"maths:{key}@{at}", printed=run_id) for key, _ in QUANTITIES}
            rows.append(Row(method_label(method), found, model_label(model)))
    rows = with_best(with_best(rows, "accuracy"), "joint")
    rows = with_best(rows, "exceed", higher=False)
    return Table(
        name="table03_maths",
        title="Maths at step 50",
        caption="Macro means over MATH-500, AIME 2024, AMC 2022/2023, Minerva and OlympiadBench, 16 samples a "
        "question. Exceed: over 4,000 tokens; joint: correct and within the limit.",
        columns=tuple(Column(key, label, "%") for key, label in QUANTITIES),
        rows=tuple(rows),
        paper_item="Table 3",
        notes=("Published: one training seed, so a difference between methods has no seed interval.",),
    )

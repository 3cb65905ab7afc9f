"""Table 4: static weights as a control, and the comparison at step 100."""

from __future__ import annotations

import pandas as pd

from harness.analysis.results import Results
from paper_tables.cells import Cells, method_label, methods_of, model_label
from paper_tables.table import Column, Row, Table

QUANTITIES = (("accuracy", "Accuracy"), ("exceed", "Exceed"), ("joint", "Joint"))
PARTS = (
    ("static weights", "maths_static", "r1-1.5b", ("dara_asym", "static_asym", "dara_sym", "static_sym")),
    ("step 100", "maths_step_100", "qwen3-4b", ("grpo", "dara_asym")),
    ("step 100", "maths_step_100", "qwen3-4b-thinking", ("grpo", "dara_asym")),
)


def build(results: Results) -> Table:
    cells = Cells(results)
    rows = []
    for label, study, model, methods in PARTS:
        mine = cells.runs(task="maths", scale="paper", model=model)
        printed = results.runs(source="published", study=study, model=model)
        for method in [name for name in methods if name in {*methods_of(mine, printed), *methods}]:
            part = mine[mine["method"] == method]
            stated = printed[printed["method"] == method]
            run_id = str(stated["run_id"].iloc[0]) if len(stated) else None
            at = _step(results, run_id)
            found = {key: cells.cell(part, f"maths:{key}{at}", printed=run_id) for key, _ in QUANTITIES}
            rows.append(Row(method_label(method), found, f"{model_label(model)}, {label}"))
    return Table(
        name="table04_maths_controls",
        title="Static weights and step 100",
        caption="Macro means over the five maths benchmarks. Static weights: correctness 1, length 5.",
        columns=tuple(Column(key, label, "%") for key, label in QUANTITIES),
        rows=tuple(rows),
        paper_item="Table 4 (numbering inferred)",
        notes=("The paper does not state the step of the static comparison; it is not 50.",),
    )


def _step(results: Results, run_id: str | None) -> str:
    """``@100`` where the published number has a step; nothing (the last step) where none is stated."""
    if run_id is None:
        return ""
    steps = results.evals.loc[results.evals["run_id"] == run_id, "step"].dropna()
    return "" if steps.empty or pd.isna(steps.iloc[0]) else f"@{int(steps.iloc[0])}"

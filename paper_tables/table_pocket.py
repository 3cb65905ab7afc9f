"""The pocket experiment: what each method reached on the generated tasks. Not the paper's models, never beside them."""

from __future__ import annotations

from figures.looks import in_order
from harness.analysis.results import Results
from paper_tables.cells import Cells, method_label, pocket_notes, with_best
from paper_tables.table import Cell, Column, Row, Table

TASKS = (
    ("tool_calling", "tool calling, two rewards"),
    ("tool_calling_three", "tool calling, three rewards"),
    ("maths", "arithmetic"),
)
QUANTITIES = (
    ("reward/correctness", "correctness", 3),
    ("reward/format", "format", 3),
    ("reward/length", "length", 3),
    ("density_peak/format", "peak format density", 3),
    ("pocket:reward/correctness", "held-out correctness", 3),
    ("pocket:reward/format", "held-out format", 3),
)


def build(results: Results) -> Table:
    cells = Cells(results)
    rows: list[Row] = []
    for task, label in TASKS:
        sizes = sorted(
            {int(size) for size in cells.results.runs(source="ours", scale="pocket", task=task)["group_size"].dropna()}
        )
        for size in sizes:
            runs = cells.runs(task=task, scale="pocket", group_size=size)
            for method in in_order(runs["method"]):
                part = runs[runs["method"] == method]
                found = {key: _cell(cells, part, key) for key, _, _ in QUANTITIES}
                rows.append(Row(method_label(method), found, f"{label}, G = {size}"))
    for key, _, _ in QUANTITIES:
        rows = with_best(rows, key)
    return Table(
        name="table_pocket",
        title="Pocket experiment",
        caption="A small model on generated tasks, mean over seeds [95 % interval] (runs); training rewards are means "
        "of the last five steps.",
        columns=tuple(Column(key, label, "", decimals) for key, label, decimals in QUANTITIES),
        rows=tuple(rows),
        notes=(
            "These are not the paper's numbers: see docs/pocket.md.",
            *pocket_notes(results, cells.runs(task="tool_calling", scale="pocket", group_size=4)),
        ),
    )


def _cell(cells: Cells, runs: object, quantity: str) -> Cell:
    found = cells.cell(runs, quantity, factor=1.0)  # type: ignore[arg-type]
    content = {name: getattr(found, name) for name in found.__dataclass_fields__} | {"verdict": "", "reason": ""}
    return Cell(**content)

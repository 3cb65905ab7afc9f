"""Table 2: what a third reward does to the format, 1.5B at step 100."""

from __future__ import annotations

from harness.analysis.results import Results
from paper_tables.cells import Cells, method_label
from paper_tables.table import Column, Row, Table

METHODS = ("gdpo", "dara_asym", "dara_sym")
MODEL = "qwen2.5-1.5b"
QUANTITIES = (
    ("accuracy/average", "Average acc"),
    ("format/average", "Average fmt"),
    ("format/multi_turn", "Multi-Turn fmt"),
    ("length/average", "Average length"),
)


def build(results: Results) -> Table:
    cells = Cells(results)
    rows = []
    for task, label in (("tool_calling", "two rewards"), ("tool_calling_three", "three rewards")):
        mine = cells.runs(task=task, scale="paper", model=MODEL, group_size=4)
        for method in METHODS:
            printed = f"published:page-table_2-{task}-{method}"
            part = mine[mine["method"] == method]
            found = {key: cells.cell(part, f"bfcl_v4:{key}@100", printed=printed) for key, _ in QUANTITIES}
            rows.append(Row(method_label(method), found, label))
    return Table(
        name="table02_three_rewards",
        title="Two and three rewards, BFCL-v4 at step 100",
        caption="Qwen2.5-1.5B-Instruct. The third reward asks for at most 16 words of thinking.",
        columns=tuple(Column(key, label, "%") for key, label in QUANTITIES),
        rows=tuple(rows),
        paper_item="Table 2",
    )

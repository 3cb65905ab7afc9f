"""Table 8: the configuration of the group-size study."""

from __future__ import annotations

from harness.compose import composing
from harness.matrix import study_runs
from paper_tables.settings import settings_table
from paper_tables.table import Table


def build() -> Table:
    """Needs no results: the table is made from conf/study/group_size.yaml."""
    with composing() as composer:
        by_size = {run.group_size: run for run in study_runs("group_size", composer)}
    return settings_table(
        "table08_group_size",
        "Configuration of the group-size study",
        "Responses and updates of a step are the same at every group size.",
        {f"G = {size}": by_size[size] for size in sorted(by_size)},
        paper_item="Table 8",
    )

"""Table 9: the configuration of the maths runs."""

from __future__ import annotations

from harness.compose import composing
from harness.matrix import expand, unique_runs
from paper_tables.settings import settings_table
from paper_tables.table import Table

STUDIES = ("maths_main", "maths_thinking")
METHOD = "dara_asym"
"""One method a model: their settings are the same."""


def build() -> Table:
    """Needs no results: the table is made from conf/study/maths_main.yaml and maths_thinking.yaml."""
    with composing() as composer:
        rows = [row for study in STUDIES for row in expand([f"study={study}", f"method={METHOD}"], composer.loader)]
        runs = {run.model.name: run for run in unique_runs(rows, composer)[0]}
        runs["pocket"] = composer.compose(["scale=pocket", "task=maths"])
    return settings_table(
        "table09_maths",
        "Configuration of maths",
        "The paper's models beside the pocket setting. The length limit counts tokens of the response.",
        runs,
        paper_item="Table 9",
    )

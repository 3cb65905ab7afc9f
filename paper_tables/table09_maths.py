"""Table 9: the configuration of the maths runs."""

from __future__ import annotations

from harness.compose import composing
from harness.matrix import study_runs
from paper_tables.settings import settings_table
from paper_tables.table import Table


def build(results: object) -> Table:
    """``results`` is not used: the table is made from conf/study/maths_main.yaml and maths_thinking.yaml."""
    with composing() as composer:
        runs = {
            run.model.name: run for study in ("maths_main", "maths_thinking") for run in study_runs(study, composer)
        }
        runs["pocket"] = composer.compose(["scale=pocket", "task=maths"])
    return settings_table(
        "table09_maths",
        "Configuration of maths",
        "The paper's models beside the pocket setting. The length limit counts tokens of the response.",
        runs,
        paper_item="Table 9",
    )

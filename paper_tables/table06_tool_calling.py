"""Table 6: the configuration of the tool-calling runs."""

from __future__ import annotations

from harness.compose import composing
from paper_tables.settings import settings_table
from paper_tables.table import Table


def build() -> Table:
    """Needs no results: the table is made from conf/."""
    with composing() as composer:
        runs = {
            "paper, two rewards": composer.compose(["scale=paper", "task=tool_calling"]),
            "paper, three rewards": composer.compose(["scale=paper", "task=tool_calling_three"]),
            "pocket, two rewards": composer.compose(["scale=pocket", "task=tool_calling"]),
            "pocket, three rewards": composer.compose(["scale=pocket", "task=tool_calling_three"]),
        }
    return settings_table(
        "table06_tool_calling",
        "Configuration of tool calling",
        "The paper's setting beside the pocket setting. The length limit counts words of thinking.",
        runs,
        paper_item="Table 6",
    )

"""``python -m paper_tables [NAME ...]``: build tables from results/ into results/tables/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import paper_tables
from harness.report.build_command import BuildCommand

if TYPE_CHECKING:
    from paper_tables.table import Table


def _write(table: Table, output: Path) -> str:
    from paper_tables.render import write

    write(table, output)
    return f"{table.title}: {output / table.name}.md"


COMMAND = BuildCommand(paper_tables, "table", "table", _write)
names, module, needs_results, main = COMMAND.names, COMMAND.module, COMMAND.needs_results, COMMAND.main

if __name__ == "__main__":
    sys.exit(main())

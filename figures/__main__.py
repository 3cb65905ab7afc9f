"""``python -m figures [NAME ...]``: build figures from results/ into results/figures/."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import figures
from harness.report.build_command import BuildCommand

if TYPE_CHECKING:
    from figures.picture import Picture


def _write(picture: Picture, output: Path) -> str:
    from figures.picture import write

    write(picture, output)
    absent = f", without {len(picture.missing)} panels" if picture.missing else ""
    return f"{picture.title}: {output / picture.name}.png{absent}"


COMMAND = BuildCommand(figures, "fig", "figure", _write)
names, module, needs_results, main = COMMAND.names, COMMAND.module, COMMAND.needs_results, COMMAND.main

if __name__ == "__main__":
    sys.exit(main())

"""The commands of a matrix without starting or building anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.config import RunConfig, run_id
from harness.engines.verl import data, mapping, process
from harness.engines.verl.arguments import command_line

FOLDER = ".verl/dry_run"


def write_commands(configs: Sequence[RunConfig], runs: Path) -> None:
    """``<runs>/.verl/dry_run/<run id>.sh`` for each run; nothing of it is ever read again. Prints the first one."""
    folder = runs.absolute() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for config in configs:
        run = runs.absolute() / run_id(config)
        arguments = command_line(mapping.overrides(config, data.expected(config, run), run, 1))
        paths.append(folder / f"{run.name}.sh")
        paths[-1].write_text(process.command_text(config, arguments), encoding="utf-8")
    print(f"\n{len(paths)} command(s) for verl in {folder}; the first, {paths[0].name}:\n")
    print(paths[0].read_text(encoding="utf-8"))

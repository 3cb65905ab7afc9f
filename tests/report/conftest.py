"""Results folders as the pipeline leaves them, and helpers of this folder and of tests/store on the path."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from figures.__main__ import main as figures
from harness.analysis import analyse_command
from harness.analysis.collect import REFERENCE, collect, write
from paper_tables.__main__ import main as tables

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build() -> Build:
    """``build(runs, folder, tables, figures)``: everything that the report reads, from the runs in a folder."""

    def made(runs: Path, folder: Path, table_names: tuple[str, ...], figure_names: tuple[str, ...]) -> Path:
        write(collect(runs, REFERENCE), folder)
        plan = {
            "pocket": {"scale": "pocket", "runs": ["one", "two"]},
            "big": {"scale": "paper", "runs": ["three"]},
        }
        (folder / "plan.json").write_text(json.dumps(plan))
        assert tables([*table_names, "--results", str(folder)]) == 0
        assert figures([*figure_names, "--results", str(folder)]) == 0
        parser = argparse.ArgumentParser()
        analyse_command.configure(parser)
        analyse_command.main(parser.parse_args(["--results", str(folder)]))
        return folder

    return made


@pytest.fixture(scope="session")
def results(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With published data alone: three tables, three figures, verdicts."""
    folder = tmp_path_factory.mktemp("results")
    return build(
        folder / "no-runs",
        folder,
        ("table01_bfcl", "table08_group_size", "table_learning_speed"),
        ("fig01_format_density", "fig_group_size", "fig_weights"),
    )

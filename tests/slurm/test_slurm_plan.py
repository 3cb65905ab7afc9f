"""What a study costs before it starts. Needs no SLURM."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.launch.slurm.planning import makespan, requeues

ROOT = Path(__file__).resolve().parents[2]


def plan(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness", "plan", f"output.runs={folder / 'runs'}", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_main_study_costs_what_the_paper_says(tmp_path: Path) -> None:
    """30 runs of 2.5 h and 30 of 4.5 h on 4 GPUs."""
    done = plan(tmp_path, "study=tool_calling_main", "--gpu-hours", "800")
    assert "840.0 GPU hours" in done.stdout
    assert "the longest run, 4.5 h" in done.stdout
    assert "needs 840 GPU hours, the budget is 800" in done.stdout
    assert done.returncode == 1
    assert not (tmp_path / "runs").exists()


def test_hours_that_nobody_knows_are_said_to_be_unknown(tmp_path: Path) -> None:
    done = plan(tmp_path, "study=maths_main", "seed=0")
    assert "unknown" in done.stdout
    assert "nobody has measured" in done.stdout
    assert done.returncode == 0


def test_unknown_study_is_an_error_of_one_line(tmp_path: Path) -> None:
    done = plan(tmp_path, "study=tool_caling_main")
    assert done.returncode == 2
    assert "tool_calling_main" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_makespan_by_hand() -> None:
    assert makespan([], 3) == 0.0
    assert makespan([4.5, 2.5, 2.5], None) == 4.5
    assert makespan([4.5, 2.5, 2.5], 2) == 5.0
    assert makespan([1.0, 1.0, 1.0], 1) == 3.0


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=30), st.integers(1, 10))
def test_makespan_lies_between_its_bounds(hours: list[float], at_once: int) -> None:
    found = makespan(hours, at_once)
    assert found >= max(max(hours), sum(hours) / at_once) - 1e-9
    assert found <= sum(hours) + 1e-9


@pytest.mark.parametrize(
    ("hours", "limit", "expected"), [(4.5, 600, 0), (10.0, 600, 0), (10.1, 600, 1), (25.0, 720, 2)]
)
def test_requeues(hours: float, limit: float, expected: int) -> None:
    assert requeues(hours, limit) == expected

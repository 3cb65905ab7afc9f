"""What a study costs before it starts. Needs no SLURM."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from store_configs import small_config

from harness.compose import composing
from harness.config import EvaluationConfig
from harness.launch.slurm.planning import Evaluating, EvaluationTimes, costs, makespan, requeues, stored_bytes
from harness.launch.wanted_evaluations import ask, note_attempt
from harness.matrix import study_runs
from harness.store import RunStore

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
    assert "660 evaluations left" in done.stdout
    assert "660 evaluations of a kind that nobody has measured: not counted" in done.stdout
    assert "the longest run, without its evaluations, 4.5 h" in done.stdout
    assert "needs 840 GPU hours, the budget is 800" in done.stdout
    assert done.returncode == 1
    assert not (tmp_path / "runs").exists()


def test_hours_that_nobody_knows_are_said_to_be_unknown(tmp_path: Path) -> None:
    done = plan(tmp_path, "study=maths_main", "seed=0")
    assert "unknown" in done.stdout
    assert "nobody has measured" in done.stdout
    assert done.returncode == 0


def test_measured_times_take_the_place_of_published_ones(tmp_path: Path) -> None:
    """One run of the study with 10 of 100 steps of 36 s and three evaluations of 6, 12 and 12 minutes: the others are
    planned with 1 h of training and 11 evaluations of 12 minutes on one GPU."""
    with composing() as composer:
        configs = study_runs("tool_calling_main", composer)
    store = RunStore(tmp_path / "runs")
    config = next(item for item in configs if item.model.name == "qwen2.5-1.5b")
    run = store.create(config)
    with run.lock("test"):
        run.begin_attempt({})
        for step in range(1, 11):
            run.metrics.append(step, {"seconds": 36.0})
        run.end_attempt("interrupted")
    ask(run, config)
    for step, seconds in ((0, 360.0), (10, 720.0), (20, 720.0)):
        run.evaluations.write("bfcl_v4", step, {"n": 1, "metrics": {}}, None)
        note_attempt(run, "bfcl_v4", step, "stored", seconds, None)
    found = costs([item for item in configs if item.model.name == "qwen2.5-1.5b"], store)
    mine = next(cost for cost in found if cost.config is config)
    other = next(cost for cost in found if cost.config is not config)
    assert (mine.source, mine.hours, mine.gpus) == ("measured", pytest.approx(0.9), 4)
    assert mine.evaluations == (Evaluating("bfcl_v4", 8, 11, pytest.approx(0.2), 1),)
    assert (other.source, other.hours) == ("measured", pytest.approx(1.0))
    assert other.evaluation_hours == pytest.approx(2.2)
    assert other.chain_hours == pytest.approx(3.2)
    done = plan(tmp_path, "study=tool_calling_main", "model=qwen2.5-1.5b")
    training, evaluating = 4 * (29 * 1.0 + 0.9), 0.2 * (29 * 11 + 8)
    assert (
        f"{training + evaluating:.1f} GPU hours ({training:.1f} training, {evaluating:.1f} evaluation)" in done.stdout
    )
    assert "critical path: the longest run and its evaluations, 3.2 h" in done.stdout


def test_a_resumed_evaluation_took_as_long_as_all_its_attempts(tmp_path: Path) -> None:
    store = RunStore(tmp_path / "runs")
    config = small_config(steps=5)
    run = store.create(config)
    ask(run, dataclasses.replace(config, evaluation=EvaluationConfig(["pocket"], [0], {})))
    assert EvaluationTimes(store).of("pocket", "pocket") is None
    note_attempt(run, "pocket", 0, "interrupted", 1800.0, None)
    assert EvaluationTimes(store).of("pocket", "pocket") is None, "not known before one is whole"
    note_attempt(run, "pocket", 0, "stored", 1800.0, None)
    assert EvaluationTimes(store).of("pocket", "pocket") == pytest.approx(1.0)


def test_storage_by_hand() -> None:
    """12 bytes a parameter in a checkpoint, 4 in an export."""
    with composing() as composer:
        main = study_runs("tool_calling_main", composer)[0]
        bounded = composer.compose(["scale=paper", "+engine.options.keep_exports=1", "evaluate_at=[0,50]"])
        pocket = composer.compose(["method=gdpo", "evaluate_at=[0,10,60]"])
    assert stored_bytes(main) == pytest.approx(1.54e9 * (12 + 10 * 4))
    assert stored_bytes(bounded) == pytest.approx(1.54e9 * (12 + 2 * 4)), "the last one, and the one evaluated"
    assert stored_bytes(pocket) == pytest.approx(0.15e6 * (2 * 12 + 4)), "step 10, and the last one"


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

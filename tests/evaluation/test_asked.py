"""Evaluations as part of a run: which steps a configuration asks for, and what it may not ask for."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from store_configs import small_config

from harness.compose import composing, run_config_from_mapping, run_config_to_mapping
from harness.config import RunConfig, run_id
from harness.errors import UserError
from harness.evaluation.asked import complete_evaluation
from harness.evaluation.options import parse, words_of
from harness.matrix import expand, study_runs, unique_runs


def asked(steps: int = 100, **evaluation: Any) -> RunConfig:
    mapping = run_config_to_mapping(small_config(steps=steps))
    return run_config_from_mapping(
        {**mapping, "evaluation": {"benchmarks": ["pocket"], "at": [0], "options": {}, **evaluation}}
    )


@pytest.mark.parametrize(
    ("at", "steps"),
    [
        ([0, 10, "..", 40], [0, 10, 20, 30, 40]),
        ([0, 10, "...", 30, 100], [0, 10, 20, 30, 100]),
        ([5, 0, 5], [0, 5]),
        ([1, 2, "..", 3], [1, 2, 3]),
        ([], []),
    ],
)
def test_steps(at: list[Any], steps: list[int]) -> None:
    assert asked(at=at).evaluation.at == steps


@given(st.integers(0, 50), st.integers(1, 20), st.integers(2, 20))
def test_equal_distances(first: int, distance: int, count: int) -> None:
    last = first + distance * count
    found = complete_evaluation({"at": [first, first + distance, "..", last]})["at"]
    assert found == list(range(first, last + 1, distance))


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        ({"at": [0, 10, "..", 105]}, ["[0,10,..,105]", "equal distances"]),
        ({"at": [10, "..", 100]}, ["equal distances"]),
        ({"at": [0, 10, ".."]}, ["equal distances"]),
        ({"at": ["a"]}, ["evaluation.at[0]=a", "whole number"]),
        ({"at": 10}, ["evaluation.at=10", "evaluation.at=[10]"]),
        ({"at": [101]}, ["step 101", "training.steps=100", "evaluate_at=[]"]),
        ({"at": [-1]}, ["step -1"]),
        ({"benchmarks": []}, ["evaluation.benchmarks"]),
        ({"benchmarks": ["bfcl"]}, ["bfcl", "bfcl_v4"]),
        ({"options": {"bakend": "vllm"}}, ["evaluation.options", "bakend", "backend"]),
        ({"options": {"backend": "vlm"}}, ["evaluation.options", "vllm"]),
        ({"options": {"step": 3}}, ["evaluation.options.step", "remove"]),
    ],
)
def test_mistakes_name_key_and_remedy(evaluation: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        asked(**evaluation)
    for word in words:
        assert word in str(error.value)


def test_pocket_is_for_generated_tasks() -> None:
    mapping = run_config_to_mapping(asked())
    mapping["data"]["source"] = "hub"
    with pytest.raises(UserError, match=r"generated tasks.*bfcl_v4"):
        run_config_from_mapping(mapping)


def test_evaluations_are_no_part_of_what_is_trained() -> None:
    assert run_id(asked(at=[0, 50, 100])) == run_id(small_config(steps=100))


def test_options_survive_as_words() -> None:
    options = {"backend": "vllm", "limit": 3, "temperature": 0.5, "extra": {"a": 1}, "dtype": None}
    found = parse(["benchmark=maths", "model=x", *words_of(options)])
    assert (found.backend, found.limit, found.temperature, found.extra) == ("vllm", 3, 0.5, {"a": 1})


def test_what_the_paper_evaluates() -> None:
    """Figure 2 needs BFCL-v4 every 10 steps; Table 3 maths at step 50, the held-out curves R1-7B every 10 steps."""
    every_ten = list(range(0, 101, 10))
    with composing() as composer:
        both, _ = unique_runs(expand(["study=group_size,tool_calling_main"], composer.loader), composer)
        main = study_runs("tool_calling_main", composer)
        words = expand(["study=maths_main"], composer.loader)
        rows = [dict(word.split("=", 1) for word in row) for row in words]
        # A model's runs differ by their method alone, so one of them is composed for all.
        said = {row["model"]: row["evaluate_at"] for row in rows}
        maths = [composer.compose(next(row for row in words if f"model={model}" in row)) for model in said]
    assert {(*run.evaluation.benchmarks, *run.evaluation.at) for run in main} == {("bfcl_v4", *every_ten)}
    assert len(rows) == 18
    assert all(row["evaluate_at"] == said[row["model"]] for row in rows)
    assert {run.model.name: (run.evaluation.benchmarks, run.evaluation.at) for run in maths} == {
        "r1-1.5b": (["maths"], [0, 50]),
        "qwen3-4b": (["maths"], [0, 50, 100]),
        "r1-7b": (["maths"], every_ten),
    }
    shared = [run for run in both if run.group_size == 4 and run.model.name == "qwen2.5-1.5b" and run.seed == 0]
    assert all(run.evaluation.at == every_ten for run in shared)
    assert len(both) == 48 + 60 - 12

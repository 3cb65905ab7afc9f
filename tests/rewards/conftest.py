"""Cases with known values and real rows; they lie outside the repository and their tests skip without them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest


def _rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="session")
def toolrl_cases(reference_material: Path) -> list[dict]:
    return _rows(reference_material / "cases" / "toolrl_reward_cases.jsonl")


@pytest.fixture(scope="session")
def maths_cases(reference_material: Path) -> list[dict]:
    return _rows(reference_material / "cases" / "math_grader_cases.jsonl")


@pytest.fixture(scope="session")
def rlla_rows(reference_material: Path) -> list[dict]:
    return pd.read_parquet(reference_material / "data" / "rlla_4k_test" / "test.parquet").to_dict("records")

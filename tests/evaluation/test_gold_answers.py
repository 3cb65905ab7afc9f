"""Answers that are right by construction, stored as a model's outputs and scored by the command."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evaluation_data import bfcl_truths, store_bfcl_answers

from harness.cli import main
from harness.errors import UserError
from harness.evaluation import maths
from harness.evaluation.bfcl.categories import CASES
from harness.evaluation.bfcl.environment import environment
from harness.evaluation.bfcl.truth import Truth
from harness.evaluation.outputs import NAME, Writer
from harness.evaluation.sampling import Generation
from harness.evaluation.sandbox import Sandbox
from harness.tasks.library import Library

COPIES = {
    "math500": ("math500/test.jsonl", 500),
    "aime_2024": ("aime24/test.jsonl", 30),
    "amc_2022_2023": ("amc_2022_2023/amc.json", 83),
    "minerva": ("minerva_math/test.jsonl", 272),
    "olympiadbench": ("olympiadbench_en_math_text_675/test.jsonl", 675),
}
"""Benchmark -> (file of the reference material, questions)."""
PLAIN_INTEGERS_STRICT = 23
"""AIME answers without a leading zero, of 30."""


@pytest.fixture(scope="module")
def data(reference_material: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for name, (path, _) in COPIES.items():
        (root / name / "source").mkdir(parents=True)
        shutil.copy(reference_material / "data" / path, root / name / "source")
    assert main(["data", "fetch", *COPIES, f"data.root={root}"]) == 0
    return root


def scored(data: Path, out: Path, answer: Callable[[str], str], samples: int) -> dict[str, Any]:
    for name in COPIES:
        with Writer(out / "evals" / name / "0" / NAME, {"benchmark": name, "sampling": {"seed": 0}}) as writer:
            asked = maths.questions(name, Library(data))
            references = {question.identifier: question.example.reference for question in asked}
            for request in maths.requests(asked, maths.SAMPLING):
                if request.key[1] < samples:
                    text = f"So \\boxed{{{answer(references[request.key[0]])}}}."
                    writer.add(request, Generation(request.key, text, 9, 9, "stop"))
    words = ["benchmark=maths", "model=gold", "stage=score", f"samples={samples}", f"data.root={data}", f"out={out}"]
    assert main(["evaluate", *words]) == 0
    return dict(json.loads((out / "evals/maths/0.json").read_bytes()))


def test_maths_gold_answers_are_right(data: Path, tmp_path: Path) -> None:
    result = scored(data, tmp_path, lambda reference: reference, 2)
    for name, (_, count) in COPIES.items():
        cell = result["cells"][name]
        assert (cell["correct_strict"], cell["correct"], cell["outputs"]) == (2 * count, 2 * count, 2 * count), name
    assert result["metrics"]["accuracy"] == result["metrics"]["joint"] == 1.0
    assert result["intervals"]["accuracy/minerva"]["low"] == 1.0


def test_plain_integers_are_rescued_where_the_reference_has_a_leading_zero(data: Path, tmp_path: Path) -> None:
    result = scored(data, tmp_path, lambda reference: re.sub(r"^0+(?=\d)", "", reference), 1)
    cell = result["cells"]["aime_2024"]
    assert (cell["correct_strict"], cell["correct"]) == (PLAIN_INTEGERS_STRICT, 30)
    assert result["metrics"]["accuracy_strict/aime_2024"] == pytest.approx(23 / 30)


def perfect(_: int, truth: Truth) -> list[list[str]]:
    return truth.answers()


def half(number: int, truth: Truth) -> list[list[str]]:
    """Every second case calls nothing."""
    answers = truth.answers()
    return [["<think> so </think>\n<response> no </response>"] for _ in answers] if number % 2 else answers


def bfcl(out: Path, *more: str) -> dict[str, Any]:
    assert main(["evaluate", "benchmark=bfcl_v4", "model=truth", "stage=score", f"out={out}", *more]) == 0
    (path,) = (out / "evals").glob("bfcl_v4*/0.json")
    return dict(json.loads(path.read_bytes()))


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    try:
        environment()
    except UserError as error:
        pytest.skip(str(error))
    problem = Sandbox().problem()
    if problem:
        pytest.skip(f"no sandbox here: {problem}")
    return Sandbox()


def test_a_few_bfcl_answers(sandbox: Sandbox, tmp_path: Path) -> None:
    names = ("simple_java", "simple_javascript", "live_parallel", "multi_turn_miss_func")
    words = ("limit=4", f"categories={','.join(names)}")
    truths = bfcl_truths(sandbox, 4, names)
    store_bfcl_answers(tmp_path, truths, perfect)
    result = bfcl(tmp_path, *words)
    assert {name: result["cells"][name]["correct"] for name in names} == dict.fromkeys(names, 4)
    assert result["metrics"]["format/multi_turn_miss_func"] == 1.0
    assert result["metrics"]["accuracy/multi_turn"] is result["metrics"]["accuracy/average"] is None
    assert (result["n"], result["missing"], result["stale"], result["whole_benchmark"]) == (16, 0, 0, False)
    store_bfcl_answers(tmp_path, truths, half)
    broken = bfcl(tmp_path, *words)
    assert {name: broken["cells"][name]["correct"] for name in names} == dict.fromkeys(names, 2)
    store_bfcl_answers(tmp_path, truths, perfect)
    assert bfcl(tmp_path, *words) == result


@pytest.mark.slow
def test_all_bfcl_answers(sandbox: Sandbox, tmp_path: Path) -> None:
    """Unreachable are two answers each of live_simple and live_multiple, and 2 to 4 of simple_java, for the official
    checker refuses what its own answer file says."""
    truths = bfcl_truths(sandbox)
    store_bfcl_answers(tmp_path, truths, half)
    broken = bfcl(tmp_path)
    store_bfcl_answers(tmp_path, truths, perfect)
    whole = bfcl(tmp_path)
    correct = {name: cell["correct"] for name, cell in whole["cells"].items()}
    assert 96 <= correct.pop("simple_java") <= 98
    assert correct == {name: count for name, count in CASES.items() if name != "simple_java"} | {
        "live_simple": 256,
        "live_multiple": 1051,
    }
    assert whole["metrics"]["accuracy/multi_turn"] == 1.0
    assert whole["whole_benchmark"]
    for name, cell in broken["cells"].items():
        # Every second case over all categories: of an odd number one more or one fewer is left whole.
        assert abs(cell["correct"] - whole["cells"][name]["correct"] / 2) <= 2, name
    assert broken["metrics"]["accuracy/multi_turn"] == 0.5

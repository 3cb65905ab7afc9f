"""Published files to examples: every layout in use, and rows that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from harness.errors import UserError
from harness.rewards import maths, tool_calling
from harness.tasks import schema
from harness.tasks.prompts import MATHS_INSTRUCTION
from harness.tasks.records import read_examples

CALL = '<think> t </think>\n<tool_call>\n{"name": "f", "parameters": {}}\n</tool_call>'


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def tool_row(reference: object = CALL, **changes: object) -> dict:
    prompt = [{"role": "system", "content": " S "}, {"role": "user", "content": "U\n"}]
    return {"prompt": prompt, "reward_model": {"ground_truth": reference, "style": "rule"}, **changes}


def test_tool_calling_prompts_are_the_datas_text_unchanged(tmp_path):
    (example,) = read_examples(lines(tmp_path / "a.jsonl", tool_row()), "tool_calling", "published")
    assert example.messages == ({"role": "system", "content": " S "}, {"role": "user", "content": "U\n"})
    assert (example.reference, example.index) == (CALL, 0)


@pytest.mark.parametrize(
    ("row", "reference"),
    [
        ({"problem": "P", "answer": "5", "id": 3}, "5"),
        ({"question": "P", "final_answer": ["$5$", "6"]}, "5"),
        ({"problem": " P ", "answer": 5.0}, "5"),
        ({"problem": "P", "solution": "so $\\boxed{5}$"}, "5"),
        ({"problem": f"P\n{MATHS_INSTRUCTION}", "answer": "5"}, "5"),
        (
            {
                "prompt": [
                    {
                        "role": "user",
                        "content": "P Let's think step by step and output the final answer within \\boxed{}.",
                    }
                ],
                "reward_model": {"ground_truth": "5"},
            },
            "5",
        ),
    ],
)
def test_every_maths_layout(tmp_path, row, reference):
    (example,) = read_examples(lines(tmp_path / "a.jsonl", row), "maths", "normalised")
    assert example.reference == reference
    assert example.messages == ({"role": "user", "content": f"P {MATHS_INSTRUCTION}"},)


def test_training_references_stay_as_published(tmp_path):
    path = lines(tmp_path / "a.json", {"problem": "P", "answer": "$12$"}, {"problem": "Q", "answer": ""})
    assert [example.reference for example in read_examples(path, "maths", "published")] == ["$12$", ""]
    assert [example.reference for example in read_examples(path, "maths", "normalised")] == ["12", ""]


@pytest.mark.parametrize(
    ("task", "row", "reason"),
    [
        ("tool_calling", tool_row("<think> <tool_call> </think>\n" + CALL), "can't be parsed"),
        ("tool_calling", tool_row(5), "ground_truth is a int"),
        ("tool_calling", tool_row(prompt=[]), "does not end with a user turn"),
        ("tool_calling", tool_row(prompt=[{"role": "user", "content": None}]), "role 'user'"),
        ("tool_calling", tool_row(prompt=[{"role": "tool", "content": ""}, {"role": "user", "content": ""}]), "'tool'"),
        ("tool_calling", {"prompt": None}, "row 1"),
        ("maths", {"problem": "P"}, "no answer under answer or final_answer"),
        ("maths", {"problem": " ", "answer": "5"}, "no problem text"),
        ("maths", {"problem": "P", "answer": float("nan")}, "is no answer"),
        ("maths", {"problem": "P", "answer": []}, "empty list"),
        ("maths", [1], "not an object"),
    ],
)
def test_a_row_that_does_not_fit_is_named(tmp_path, task, row, reason):
    good = tool_row() if task == "tool_calling" else {"problem": "P", "answer": "5"}
    path = lines(tmp_path / "a.jsonl", good, row)
    with pytest.raises(UserError, match="row 1") as error:
        read_examples(path, task, "published")
    assert reason in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.parquet", b"PAR1 nothing"),
        ("a.jsonl", b'{"problem": "P", "answer": "5"}\n{'),
        ("a.json", b"[" * 2_000),
        ("a.jsonl", b"\xff\xfe"),
        ("a.csv", b"problem,answer\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_line(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=name) as error:
        read_examples(path, "maths", "published")
    assert "\n" not in str(error.value)


def test_the_case_that_the_public_reward_raises_on_is_an_error_of_the_data(tmp_path, reference_material):
    cases = (reference_material / "cases" / "toolrl_reward_cases.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [tool_row(json.loads(case)["ground_truth"]) for case in cases]
    (bad,) = [index for index, case in enumerate(cases) if json.loads(case)["format"] is None]
    with pytest.raises(UserError, match=f"row {bad}: the reference answer can't be parsed"):
        read_examples(lines(tmp_path / "a.jsonl", *rows), "tool_calling", "published")


def test_the_converted_file_is_checked(tmp_path):
    path = tmp_path / "a.parquet"
    examples = read_examples(lines(tmp_path / "a.jsonl", tool_row(), tool_row()), "tool_calling", "published")
    schema.write(path, "rlla_4k", "tool_calling", "train", examples)
    assert schema.read(path) == examples
    frame = pd.read_parquet(path)
    assert list(frame.columns) == list(schema.COLUMNS)
    frame.loc[1, "prompt"] = None
    frame.to_parquet(path)
    with pytest.raises(UserError, match="row 1: no prompt"):
        schema.read(path)


def test_real_tool_calling_rows(reference_material):
    examples = read_examples(reference_material / "data" / "rlla_4k_test" / "test.parquet", "tool_calling", "published")
    rows = pd.read_parquet(reference_material / "data" / "rlla_4k_test" / "test.parquet")
    assert len(examples) == 80
    for example, prompt in zip(examples, rows["prompt"], strict=True):
        assert [dict(message) for message in prompt] == list(example.messages)
        assert [message["role"] for message in example.messages] == ["system", "user"]
        assert tool_calling.score(example.reference, example.reference)["format"] == 1.0


GOLD = [
    ("math500/test.jsonl", 500, 500),
    ("aime24/test.jsonl", 30, 30),
    ("amc_2022_2023/amc.json", 83, 83),
    ("minerva_math/test.jsonl", 272, 272),
    ("olympiadbench_en_math_text_675/test.jsonl", 675, 675),
    ("deepscaler_dsr_sub_1209/dsr_sub.parquet", 1209, 1208),
]


@pytest.mark.parametrize(("path", "rows", "right"), GOLD)
def test_gold_answers_against_themselves(reference_material, path, rows, right):
    references = "published" if "deepscaler" in path else "normalised"
    examples = read_examples(reference_material / "data" / path, "maths", references)
    assert len(examples) == rows
    missed = [
        example.index
        for example in examples
        if not maths.strict(f"Hence $\\boxed{{{example.reference}}}$.", example.reference)
    ]
    assert rows - len(missed) == right
    assert missed == ([1187] if "deepscaler" in path else [])


def test_aime_with_the_plain_integer(reference_material):
    examples = read_examples(reference_material / "data" / "aime24" / "test.jsonl", "maths", "normalised")
    responses = [f"\\boxed{{{int(example.reference)}}}" for example in examples]
    references = [example.reference for example in examples]
    assert sum(map(maths.strict, responses, references)) == 23
    assert sum(map(maths.primary, responses, references)) == 30

"""`python -m harness grade` on files from anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness import cli

CALL = '<think> t </think>\n<tool_call>\n{"name": "f", "parameters": {}}\n</tool_call>'


def lines(path: Path, *rows: object) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def graded(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_maths_as_a_user_runs_it(tmp_path):
    path = lines(
        tmp_path / "answers.jsonl",
        {"response": "\\boxed{25}", "reference": "025", "tokens": 5, "note": "kept"},
        {"output": "\\boxed{1/2}", "gts": "\\frac{1}{2}", "response_tokens": 4001},
        {"solution_str": "none \ud800", "ground_truth": "1"},
        "",
        {"completion": "\\boxed{1", "answer": "1", "length": 1},
    )
    done = subprocess.run(
        [sys.executable, "-m", "harness", "grade", "--task", "maths", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 responses graded" in done.stdout
    assert "strict         0.2500" in done.stdout
    assert "primary        0.5000" in done.stdout
    assert "length         0.6667  (of 3)" in done.stdout
    rows = graded(tmp_path / "answers.graded.jsonl")
    assert rows[0]["note"] == "kept"
    assert rows[0]["scores"] == {"strict": 0.0, "fallback": 1.0, "primary": 1.0, "length": 1.0}
    assert rows[1]["scores"] == {"strict": 1.0, "fallback": 0.0, "primary": 1.0, "length": 0.0}
    assert rows[2]["scores"]["length"] is None
    assert [row["failures"] for row in rows] == [[], [], ["no_box"], ["unclosed_box"]]


def test_every_case_of_both_tasks(reference_material, tmp_path):
    for task, name, wanted in (
        ("tool_calling", "toolrl_reward_cases.jsonl", ("format", "correctness")),
        ("maths", "math_grader_cases.jsonl", ("strict",)),
    ):
        output = tmp_path / f"{task}.jsonl"
        source = reference_material / "cases" / name
        assert cli.main(["grade", "--task", task, str(source), "--output", str(output)]) == 0
        for row in graded(output):
            values = [row["score"]] if task == "maths" else [row["format"], row["correctness"]]
            if None not in values:
                assert [row["scores"][key] for key in wanted] == values


def test_tool_calling_limit(tmp_path, capsys):
    path = lines(tmp_path / "a.jsonl", {"response": CALL, "reference": CALL}, {"response": "", "reference": CALL})
    for limit, share in ((1, "0.5000"), (0, "0.0000")):
        assert cli.main(["grade", "--task", "tool_calling", str(path), "--length-limit", str(limit)]) == 0
        out = capsys.readouterr().out
        assert f"length         {share}" in out
        assert "failure/no_tool_call 0.5000" in out
    assert graded(tmp_path / "a.graded.jsonl")[0]["scores"]["think_words"] == 1


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "line 2 is no JSON"),
        ("[" * 2_000, "line 2 is no JSON"),
        ("[1]", "line 2 is no JSON object"),
        ('{"reference": "1"}', "line 2 has no text under response, output"),
        ('{"response": 5, "reference": "1"}', "line 2 has no text under response"),
        ('{"response": "1", "reference": "1", "tokens": "many"}', "'many' is no number of tokens"),
        ('{"response": "1", "reference": "1", "tokens": -1}', "-1 is no number of tokens"),
    ],
)
def test_a_bad_line_is_named_and_leaves_no_output(tmp_path, capsys, row, message):
    path = lines(tmp_path / "a.jsonl", {"response": "1", "reference": "1"}, row)
    assert cli.main(["grade", "--task", "maths", str(path)]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.jsonl"]


def test_bad_files(tmp_path, capsys):
    empty = lines(tmp_path / "empty.jsonl")
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    good = lines(tmp_path / "good.jsonl", {"response": "1", "reference": "1"})
    for words, message in (
        ([str(tmp_path / "absent.jsonl")], "No such file"),
        ([str(empty)], "no lines to grade"),
        ([str(binary)], "no UTF-8 text"),
        ([str(good), "--output", str(good)], "is the input"),
        ([str(good), "--output", str(tmp_path / "no" / "x.jsonl")], "No such file"),
        ([str(good), "--length-limit", "-1"], "must not be negative"),
    ):
        assert cli.main(["grade", "--task", "maths", *words]) == 2
        assert message in capsys.readouterr().err

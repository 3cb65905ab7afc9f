from __future__ import annotations

import numpy as np
import pytest

from harness.rewards import length, maths, tool_calling
from harness.rewards.batch import rescue_batch, score_batch

CALL = '<think> t </think>\n<tool_call>\n{"name": "f", "parameters": {}}\n</tool_call>'


def test_tool_calling_equals_the_single_scores(toolrl_cases):
    cases = [case for case in toolrl_cases if case["format"] is not None]
    scores = score_batch(
        "tool_calling_three",
        [case["response"] for case in cases],
        [case["ground_truth"] for case in cases],
        None,
        length_limit=16,
    )
    assert list(scores.channels) == ["correctness", "format", "length"]
    assert scores.channels["correctness"].tolist() == [case["correctness"] for case in cases]
    assert scores.channels["format"].tolist() == [case["format"] for case in cases]
    words = [length.think_words_at_most(case["response"], 16) for case in cases]
    assert scores.channels["length"].tolist() == words
    assert all(values.dtype == np.float64 for values in scores.channels.values())
    failed = scores.failures["parse_error"] | scores.failures["no_tool_call"]
    assert not (scores.failures["parse_error"] & scores.failures["no_tool_call"]).any()
    assert (scores.channels["correctness"][failed] == -3.0).all()
    assert failed.sum() > 5


def test_maths_equals_the_single_scores(maths_cases):
    texts = [case["solution_str"] for case in maths_cases]
    references = [case["ground_truth"] for case in maths_cases]
    scores = score_batch("maths", texts, references, list(range(len(texts))), length_limit=40)
    assert list(scores.channels) == ["correctness", "length"]
    assert scores.channels["correctness"].tolist() == [case["score"] for case in maths_cases]
    assert scores.channels["correctness"].tolist() == list(map(maths.strict, texts, references))
    assert scores.channels["length"].sum() == 41
    rescued = rescue_batch(texts, references, scores.channels["correctness"])
    assert (scores.channels["correctness"] + rescued).tolist() == list(map(maths.primary, texts, references))
    assert 10 < rescued.sum() < 40


def test_failure_kinds_of_maths():
    scores = score_batch(
        "maths",
        ["\\boxed{1}", "1", "\\boxed{1", "\\boxed{1}"],
        ["1"] * 4,
        [3, 4, 8, 9],
        length_limit=4,
        max_response_tokens=8,
    )
    assert scores.channels["correctness"].tolist() == [1, 0, 0, 1]
    assert scores.channels["length"].tolist() == [1, 1, 0, 0]
    assert {kind: flags.tolist() for kind, flags in scores.failures.items()} == {
        "no_box": [False, True, False, False],
        "unclosed_box": [False, False, True, False],
        "truncated": [False, False, True, True],
    }


def test_failure_kinds_of_tool_calling():
    scores = score_batch(
        "tool_calling",
        [CALL, "hi", CALL.replace("}}", "}"), CALL],
        [CALL, CALL, CALL, "<think> <tool_call> </think>"],
        [1, 2, 3, 4],
        length_limit=None,
        max_response_tokens=4,
    )
    assert scores.channels["correctness"].tolist() == [3, -3, -3, 0]
    assert {kind: np.flatnonzero(flags).tolist() for kind, flags in scores.failures.items()} == {
        "no_tool_call": [1],
        "parse_error": [2],
        "bad_reference": [3],
        "truncated": [3],
    }


@pytest.mark.parametrize("task", ["tool_calling", "tool_calling_three", "maths"])
def test_an_empty_batch_is_empty(task):
    scores = score_batch(task, [], [], [], length_limit=1)
    assert all(values.shape == (0,) for values in [*scores.channels.values(), *scores.failures.values()])


@pytest.mark.parametrize(
    ("arguments", "limit", "message"),
    [
        (("chess", ["a"], ["a"], [1]), 1, "unknown task 'chess'; valid: tool_calling"),
        (("maths", ["a"], [], [1]), 1, "1 responses but 0 references"),
        (("maths", ["a"], ["a"], [1, 2]), 1, "1 responses but 2 lengths"),
        (("maths", ["a"], ["a"], None), 1, "maths needs lengths"),
        (("maths", ["a"], ["a"], [1]), None, "length_limit"),
        (("tool_calling_three", ["a"], ["a"], None), None, "length_limit"),
    ],
)
def test_a_callers_mistake_is_named(arguments, limit, message):
    with pytest.raises(ValueError, match=message):
        score_batch(*arguments, length_limit=limit)


def test_scores_of_a_row_do_not_depend_on_the_others():
    alone = tool_calling.score("hi", CALL)
    batch = score_batch("tool_calling", ["hi", CALL], [CALL, CALL], None, length_limit=None)
    assert {name: values[0] for name, values in batch.channels.items()} == alone

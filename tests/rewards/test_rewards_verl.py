"""The project's graders against those that verl ships, on every case, every gold answer and generated text."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.rewards import maths, tool_calling
from harness.rewards.transcript import assistant_text
from harness.tasks.records import read_examples

pytestmark = pytest.mark.verl

math_reward = pytest.importorskip("verl.utils.reward_score.math_reward")
rlla = pytest.importorskip("verl.utils.reward_score.rlla")

PIECES = [
    *("\\boxed{", "\\boxed ", "\\boxed", "\\fbox{", "{", "}", "\\frac", "\\dfrac", "\\tfrac", "\\sqrt", "\\text{ "),
    *("\\left", "\\right", "^\\circ", "^{\\circ}", "\\$", "$", "\\%", "\\\\%", "%", "\\\\", "\\!", "\n", " ", "\t"),
    *("1", "2", "0", ".", "-", "+", "/", "=", "x", ",", "(", ")", "0.5", "k ="),
]
latex = st.lists(st.one_of(st.sampled_from(PIECES), st.characters()), max_size=9).map("".join)

CALLS = [
    '{"name": "f", "parameters": {"a": 1}}',
    '{"name": "f", "parameters": {"a": 2, "b": [1]}}',
    '{"name": "g", "parameters": {}}',
    '{"name": "f"}',
    '{"name": ["f"], "parameters": {}}',
    '{"name": "f", "parameters": [1]}',
    '{"name": "f", "parameters": {"a": true}}',
    "null",
]
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>", "\n", " ", "t"]
BLOCKS = ["<think> x </think>\n<tool_call>\n", "\n</tool_call>", "</think>\n<response>", "\n</tool_call>\n<response>"]
answers = st.lists(st.sampled_from([*CALLS, *TAGS, *BLOCKS]), max_size=12).map("".join)
references = st.lists(st.sampled_from(CALLS[:3]), min_size=1, max_size=3).flatmap(
    lambda calls: st.sampled_from(
        [
            "<think> t </think>\n<tool_call>\n" + "\n".join(calls) + "\n</tool_call>",
            "<think> t </think>\n<tool_call>\n" + "\n".join(calls) + "\n</tool_call>\n<response> r </response>",
            "<think> t </think>\n<response> r </response>",
            "<think> t </think>",
        ]
    )
)


def test_strict_on_every_case_and_gold_answer(reference_material):
    cases = (reference_material / "cases" / "math_grader_cases.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = [(case["solution_str"], case["ground_truth"]) for case in map(json.loads, cases)]
    for path in ("math500/test.jsonl", "aime24/test.jsonl", "amc_2022_2023/amc.json", "minerva_math/test.jsonl"):
        golds = [row.reference for row in read_examples(reference_material / "data" / path, "maths", "normalised")]
        pairs += [(f"$\\boxed{{{gold}}}$", gold) for gold in golds]
        pairs += [(f"$\\boxed{{{gold}}}$", other) for gold, other in itertools.pairwise(golds)]
    path = reference_material / "data" / "olympiadbench_en_math_text_675" / "test.jsonl"
    for references_are in ("normalised", "published"):
        golds = [row.reference for row in read_examples(path, "maths", references_are)]
        pairs += [(f"$\\boxed{{{gold}}}$", gold) for gold in golds]
    for response, reference in pairs:
        assert maths.strict(response, reference) == math_reward.compute_score(response, reference)


@settings(max_examples=3000)
@given(latex, latex)
def test_strict_on_generated_text(answer, reference):
    for text in (answer, f"\\boxed{{{answer}}}", f"\\boxed {answer}$"):
        for other in (reference, answer):
            assert maths.strict(text, other) == math_reward.compute_score(text, other)


@settings(max_examples=3000)
@given(answers, references)
def test_tool_calling_on_generated_text(response, reference):
    text = assistant_text(response)
    message = [[{"content": text}]]
    scores = tool_calling.score(text, reference)
    assert scores["format"] == rlla.customize_format_reward_func(message, [reference], 0, 1, 0, False)[0]
    assert scores["correctness"] == rlla.customize_correctness_reward_tool(message, [reference], 0, 3, -3, False)[0]

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.rewards import tool_calling

THINK = "<think> t </think>"
WEATHER = '{"name": "weather", "parameters": {"city": "Bern", "days": 3}}'
CLOCK = '{"name": "clock", "parameters": {}}'


def tools(*calls: str) -> str:
    return "<tool_call>\n" + "\n".join(calls) + "\n</tool_call>"


REFERENCE = f"{THINK}\n{tools(WEATHER)}"


def correctness(*calls: str, reference: str = REFERENCE) -> float:
    return tool_calling.score(f"{THINK}\n{tools(*calls)}", reference)["correctness"]


def test_every_known_value(toolrl_cases):
    wrong = []
    for case in toolrl_cases:
        if case["format"] is None:
            assert tool_calling.reference_problem(case["ground_truth"])
            continue
        wanted = {"format": case["format"], "correctness": case["correctness"]}
        for text in (case["response"], case["solution_str"], case["predict_str"]):
            if tool_calling.score(text, case["ground_truth"]) != wanted:
                wrong.append(case["id"])
    assert not wrong
    assert len(toolrl_cases) == 127


def test_real_references_against_themselves(rlla_rows):
    seen = []
    for row in rlla_rows:
        reference = row["reward_model"]["ground_truth"]
        assert tool_calling.reference_problem(reference) is None
        scores = tool_calling.score(reference, reference)
        assert scores == {"format": 1.0, "correctness": 3.0 if "<tool_call>" in reference else 0.0}
        seen.append(scores["correctness"])
    assert (seen.count(3.0), seen.count(0.0)) == (71, 9)


# S_max = 1 + (1 + 2 parameters) = 4; correctness = 6 R / 4 - 3
@pytest.mark.parametrize(
    ("call", "points"),
    [
        ('{"name": "weather", "parameters": {"city": "Bern", "days": 3}}', 4.0),
        ('{"name": "weather", "parameters": {"city": "Bern", "days": 4}}', 1 + 1 + 1),
        ('{"name": "weather", "parameters": {"city": "Bern"}}', 1 + 1 / 2 + 1),
        ('{"name": "weather", "parameters": {"city": "Bern", "days": 3, "x": 1}}', 1 + 2 / 3 + 2),
        ('{"name": "weather", "parameters": {}}', 1.0),
        ('{"name": "other", "parameters": {"city": "Bern", "days": 3}}', 0.0),
    ],
)
def test_points_by_hand(call, points):
    assert correctness(call) == pytest.approx(6 * points / 4 - 3, abs=1e-12)


def test_values_compare_as_python_does():
    assert correctness(WEATHER.replace("3", "3.0")) == 3.0
    assert correctness(WEATHER.replace("3", '"3"')) == 6 * 3 / 4 - 3


def test_two_calls_by_hand():
    # S_max = 1 + 3 + 1 = 5; names 1/2; the weather call whole: 1 + 2
    reference = f"{THINK}\n{tools(WEATHER, CLOCK)}"
    assert correctness(WEATHER, reference=reference) == pytest.approx(6 * (0.5 + 3) / 5 - 3)
    assert correctness(CLOCK, WEATHER, reference=reference) == pytest.approx(3.0)


def test_a_prediction_is_used_once():
    # S_max = 1 + 3 + 3 = 7; names {w, w} against {w}: 1/2; one whole call: 3
    reference = f"{THINK}\n{tools(WEATHER, WEATHER)}"
    assert correctness(WEATHER, reference=reference) == pytest.approx(6 * (0.5 + 3) / 7 - 3)


@pytest.mark.parametrize(
    "block",
    [
        "",
        "weather",
        WEATHER + ",",
        WEATHER + "\n\n" + CLOCK,
        '{"name": "weather"}',
        '{"name": "weather", "parameters": null}',
        '{"name": ["weather"], "parameters": {}}',
        '["weather"]',
        "7",
        "null",
        '{"name": "weather", "parameters": {"days": ' + "9" * 4400 + "}}",
        "[" * 2_000,
        '{"name": "weather", "parameters": ' + '{"a":' * 300 + "1" + "}" * 300 + "}",
    ],
)
def test_what_cannot_be_read_is_worst(block):
    parsed = tool_calling.parse_reference(REFERENCE)
    scores = tool_calling.score_against(f"{THINK}\n<tool_call>\n{block}\n</tool_call>", parsed)
    assert scores.correctness == -3.0
    assert scores.parse_error
    assert not scores.no_tool_call


def test_a_missing_pair_is_worst_and_named():
    parsed = tool_calling.parse_reference(REFERENCE)
    for text in (THINK, f"{THINK}\n<tool_call>\n{WEATHER}", f"{THINK}\n{WEATHER}\n</tool_call>", ""):
        scores = tool_calling.score_against(text, parsed)
        assert (scores.correctness, scores.no_tool_call, scores.parse_error) == (-3.0, True, False)


def test_the_first_block_counts_and_ends_at_the_next_opening_tag():
    first_wrong = f"{THINK}\n{tools(CLOCK)}\n{tools(WEATHER)}"
    assert tool_calling.score(first_wrong, REFERENCE) == {"format": 0.0, "correctness": -3.0}
    reopened = f"{THINK}\n<tool_call>\n{WEATHER}\n<tool_call>\n{CLOCK}\n</tool_call>"
    assert tool_calling.score(reopened, REFERENCE) == {"format": 0.0, "correctness": 3.0}


@pytest.mark.parametrize(
    ("reference", "good", "bad"),
    [
        (f"{THINK}\n{tools(CLOCK)}", f"<think></think>\n{tools(WEATHER)}", f"{THINK}\n<response> r </response>"),
        (f"{THINK}\n<response> r </response>", f"{THINK}\n<response></response>", f"{THINK}<response> r </response>"),
        (
            f"{THINK}\n{tools(CLOCK)}\n<response> r </response>",
            f"{THINK}\n{tools(CLOCK)}\n<response> q </response>",
            f"{THINK}\n{tools(CLOCK)}",
        ),
        (THINK, "<think> other </think>", f"{THINK}."),
        (THINK, "<think></think>", "<think>"),
    ],
)
def test_format_branches(reference, good, bad):
    assert tool_calling.score(good, reference)["format"] == 1.0
    assert tool_calling.score(good + "<|im_end|>ignored", reference)["format"] == 1.0
    assert tool_calling.score(bad, reference)["format"] == 0.0
    assert tool_calling.score(good + good, reference)["format"] == (1.0 if reference == THINK else 0.0)


@pytest.mark.parametrize("line_break", ["", " ", "\r\n", "\n\n", "\u2028"])
def test_format_wants_the_prescribed_line_breaks(line_break):
    text = REFERENCE.replace("</think>\n", "</think>" + line_break)
    assert tool_calling.score(text, REFERENCE)["format"] == 0.0


@pytest.mark.parametrize(
    "reference",
    [
        "<think> <tool_call> </think>\n" + tools(WEATHER),
        f"{THINK}\n{tools('not json')}",
        f"{THINK}\n{tools(WEATHER, '', CLOCK)}",
        f"{THINK}\n" + tools('{"name": "f"}'),
        f"{THINK}\n" + tools('{"name": 3, "parameters": {}}'),
        f"{THINK}\n<tool_call>",
    ],
)
def test_an_unreadable_reference_is_told_and_scores_zero(reference):
    assert tool_calling.reference_problem(reference)
    assert tool_calling.score(REFERENCE, reference)["correctness"] == 0.0


names = st.sampled_from(["f", "g", "h"])
values = st.one_of(st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.integers(0, 2), max_size=2))
calls = st.builds(
    lambda name, parameters: {"name": name, "parameters": parameters},
    names,
    st.dictionaries(st.sampled_from("abc"), values, max_size=3),
)
call_lists = st.lists(calls, min_size=1, max_size=4)


def answer(items: list[dict]) -> str:
    return f"{THINK}\n{tools(*(json.dumps(item) for item in items))}"


@given(call_lists)
def test_an_answer_equal_to_the_reference_is_whole(items):
    text = answer(items)
    assert tool_calling.score(text, text) == {"format": 1.0, "correctness": 3.0}


@given(call_lists, call_lists)
def test_correctness_is_bounded_and_blind_to_json_layout(wanted, given_calls):
    reference = answer(wanted)
    value = tool_calling.score(answer(given_calls), reference)["correctness"]
    assert -3.0 <= value <= 3.0
    compact = f"{THINK}\n{tools(*(json.dumps(c, separators=(',', ':'), sort_keys=True) for c in given_calls))}"
    assert tool_calling.score(compact, reference)["correctness"] == value


@given(call_lists)
def test_leaving_out_a_call_never_helps(items):
    reference = answer(items)
    if len(items) > 1:
        assert tool_calling.score(answer(items[:-1]), reference)["correctness"] < 3.0


FRAGMENTS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>", "\n", " ", WEATHER]


@given(st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=6)), max_size=14).map("".join))
def test_any_text_scores_in_bounds(text):
    for reference in (REFERENCE, THINK, text):
        scores = tool_calling.score(text, reference)
        assert scores["format"] in (0.0, 1.0)
        assert -3.0 <= scores["correctness"] <= 3.0

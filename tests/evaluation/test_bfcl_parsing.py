"""Parser, prompt, aggregation and format of the BFCL evaluation, without bfcl-eval."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.bfcl.categories import CASES, groups, official
from harness.evaluation.bfcl.driver import Case, Conversation, decoded
from harness.evaluation.bfcl.parsing import Undecodable, for_checker, for_execution, format_score, length_score, parse
from harness.evaluation.bfcl.prompts import AFTER_EXECUTION, SINGLE_TURN, messages
from harness.evaluation.sampling import Generation

THINK = "<think> so </think>\n"
CALL = '{"name": "f", "parameters": {"a": 1}}'


def block(*lines: str) -> str:
    return "<tool_call>\n" + "\n".join(lines) + "\n</tool_call>"


def test_the_last_block_counts_and_broken_lines_are_skipped() -> None:
    text = THINK + block('{"name": "first", "parameters": {}}') + block("{broken", CALL, "7", '{"name": 3}')
    parsed = parse(text)
    assert for_checker(parsed) == [{"f": {"a": 1}}]
    assert parsed.broken == 3
    assert not parsed.failed


def test_only_a_line_break_ends_a_call() -> None:
    """JSON may hold other characters that Python counts as line ends."""
    parsed = parse(block('{"name": "f", "parameters": {"a": "x\u2028y\u0085z"}}\r'))
    assert for_checker(parsed) == [{"f": {"a": "x\u2028y\u0085z"}}]


def test_the_tool_none_is_no_call() -> None:
    assert parse(block('{"name": "None", "parameters": {}}')).calls == ()


def test_a_block_of_broken_lines_failed() -> None:
    assert parse(block("{broken")).failed
    assert not parse("no block").failed


def test_calls_become_text_for_execution() -> None:
    parsed = parse(block('{"name": "mv", "parameters": {"source": "it\'s", "n": [1, true, null]}}', '{"name": "ls"}'))
    assert for_execution(parsed) == ['mv(source="it\'s", n=[1, True, None])', "ls()"]
    with pytest.raises(Undecodable):
        for_execution(parse(block('{"name": "f", "parameters": [1]}')))


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (THINK + "<response> hi </response>", 1.0),
        (THINK + block(CALL), 1.0),
        (THINK + block(CALL) + "\n<response> hi </response>", 1.0),
        (THINK.strip(), 0.0),
        (block(CALL), 0.0),
        (THINK + "\n" + block(CALL), 0.0),
        ("x " + THINK + block(CALL), 0.0),
        ("", 0.0),
    ],
)
def test_format(text: str, score: float) -> None:
    assert format_score(text) == score


def test_length_counts_words_of_thought() -> None:
    assert length_score("<think> " + "w " * 16 + "</think>") == 1.0
    assert length_score("<think> " + "w " * 17 + "</think>") == 0.0
    assert length_score("no tags") == 0.0


@given(st.text())
def test_parsing_never_raises(text: str) -> None:
    for output in (text, "<tool_call>" + text, block(text)):
        parse(output)
        format_score(output)
        length_score(output)


def test_hostile_blocks() -> None:
    assert parse("<tool_call>" + "[" * 100_000).failed
    assert parse(block('{"name": "f", "parameters": ' + "9" * 5000 + "}")).failed


def test_prompt_of_a_conversation() -> None:
    functions = [{"name": "f", "description": "does", "parameters": {"properties": {"a": {"type": "integer"}}}}]
    history = [
        {"role": "system", "content": "left out"},
        {"role": "user", "content": " go "},
        {"role": "assistant", "content": "calling"},
        {"role": "tool", "name": "f(a=1)", "content": "7"},
    ]
    system, user = messages(functions, history, multi_turn=False)
    assert '1. Name: f\nDescription: does\nParameters: {"a": {"type": "integer"}}\n\n**Steps' in system["content"]
    assert user["content"] == (
        f"**Dialogue Records History**\n<user> go\n{SINGLE_TURN} </user>\n\ncalling\n"
        "<obs> You have made the tool call f(a=1). Execution returns: 7 </obs>\n\n"
        f"<user> {AFTER_EXECUTION} </user>"
    )


def test_the_prompt_is_that_of_the_training_data(reference_material: Path) -> None:
    """ToolRL's rows have the frame of the evaluation word for word (but for the line break at its end), its way to list
    tools, and its dialogue: the query in user tags, an output after a blank line, its results as <obs> below it."""
    rows = pd.read_parquet(reference_material / "data/rlla_4k_test/test.parquet")["prompt"]
    empty = messages([], [{"role": "user", "content": "x"}], multi_turn=False)[0]["content"]
    before, after = empty.split("\n\n\n**Steps", 1)
    for system, user in rows:
        assert system["content"].startswith(before + "\n1. Name: ")
        assert system["content"].endswith(f"\n\n**Steps{after}".rstrip())
        assert user["content"].startswith("**Dialogue Records History**\n<user> ")
        for line in system["content"][len(before) + 1 : -len(after.rstrip()) - 9].splitlines():
            assert line.split(" ")[0] in ("Description:", "Parameters:") or ". Name: " in line
    with_results = [user["content"] for _, user in rows if "<obs>" in user["content"]]
    assert len(with_results) == 7
    history = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "<tool_call>\nC\n</tool_call>"},
        {"role": "tool", "name": "C", "content": "R"},
        {"role": "assistant", "content": "<response> A </response>"},
        {"role": "user", "content": "Q2"},
    ]
    ours = messages([], history, multi_turn=True)[1]["content"]
    for text in with_results:
        assert " </user>\n\n<think>" in text
        assert "\n</tool_call>\n<obs> " in text
        assert " </obs>\n\n<" in text or text.endswith(" </obs>")
    assert " </user>\n\n<tool_call>\n" in ours
    assert "\n</tool_call>\n<obs> " in ours
    assert " </obs>\n\n<response> A </response>\n<user> Q2\n" in ours


def test_the_paper_s_aggregation() -> None:
    values = dict.fromkeys(CASES, 0.0) | {"simple_java": 0.9, "live_multiple": 1.0, "multi_turn_base": 0.4}
    found = groups(values)
    assert found["non_live"] == pytest.approx(0.9 / 3 / 4)
    assert found["live"] == pytest.approx(1053 / 1351)
    assert found["multi_turn"] == pytest.approx(0.1)
    assert found["average"] == pytest.approx((0.9 / 12 + 1053 / 1351 + 0.1) / 3)
    assert official(values)["official_overall"] is None
    assert official(values)["official_overall_not_run_as_zero"] == pytest.approx(
        0.1 * 0.9 / 12 + 0.1 * 1053 / 1351 + 0.3 * 0.1
    )


def test_a_missing_category_makes_its_group_and_the_average_missing() -> None:
    found = groups({name: 1.0 for name in CASES if name != "live_parallel"})
    assert found == {"live": None, "non_live": 1.0, "multi_turn": 1.0, "average": None}


def test_counts() -> None:
    assert sum(CASES.values()) == 3301


def conversation(turns: int, most_steps: int = 20) -> Conversation:
    user = ({"role": "user", "content": "go"},)
    return Conversation(Case("multi_turn_base_0", (user,) * turns, (), most_steps))


def say(talk: Conversation, text: str) -> None:
    talk.advance(Generation(talk.request(0).key, text, 1, None, "stop"), lambda _, steps: ["done"] * len(steps[-1]))


def test_a_turn_goes_on_while_calls_are_made() -> None:
    talk = conversation(2)
    say(talk, block(CALL))
    assert talk.request(0).key == ("multi_turn_base_0", 0, 0, 1)
    assert (
        "<obs> You have made the tool call f(a=1). Execution returns: done </obs>"
        in talk.request(0).messages[1]["content"]
    )
    say(talk, "enough")
    assert talk.request(0).key == ("multi_turn_base_0", 0, 1, 0)
    say(talk, "nothing to do")
    assert talk.finished
    assert decoded(talk) == [[["f(a=1)"]], []]


def test_too_many_steps_end_the_conversation() -> None:
    talk = conversation(2, most_steps=2)
    for _ in range(3):
        say(talk, block(CALL))
    assert talk.finished
    assert talk.forced
    assert len(decoded(talk)) == 1

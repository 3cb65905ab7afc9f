"""No output crashes, stalls or fools a grader. Sizes here are small; benchmarks/rewards.py times the same at 10 MB."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest
from hostile_corpus import CALL, REFERENCE, corpus, in_call

from harness.rewards import length, maths, tool_calling
from harness.rewards.batch import score_batch

TEXTS = dict(corpus(100_000))


@pytest.mark.parametrize("name", TEXTS)
def test_scored_in_bounds(name):
    text = TEXTS[name]
    for reference in (REFERENCE, "<think> t </think>\n<response> r </response>", "5", text):
        scores = tool_calling.score(text, reference)
        assert scores["format"] in (0.0, 1.0)
        assert -3.0 <= scores["correctness"] <= 3.0
        assert length.think_words_at_most(text, 16) in (0.0, 1.0)
        assert maths.strict(text, reference) in (0.0, 1.0)
        assert maths.primary(text, reference) in (0.0, 1.0)


def test_none_of_them_gets_the_whole_reward():
    whole = [name for name, text in TEXTS.items() if tool_calling.score(text, REFERENCE)["correctness"] == 3.0]
    assert whole == ["call of same key", "long think"]  # both do hold the right call, once


def test_none_of_them_is_a_right_answer():
    assert not [name for name, text in TEXTS.items() if maths.primary(text, "204")]


def test_a_batch_of_them_all():
    texts = list(TEXTS.values())
    tools = score_batch("tool_calling_three", texts, [REFERENCE] * len(texts), None, length_limit=16)
    assert tools.failures["parse_error"].sum() > 20
    numbers = score_batch("maths", texts, ["5"] * len(texts), [9] * len(texts), length_limit=8)
    assert numbers.failures["unclosed_box"].sum() > 10
    assert numbers.channels["length"].sum() == 0


def test_nesting_is_judged_the_same_at_any_stack_depth():
    def deep(levels: int, text: str) -> float:
        return deep(levels - 1, text) if levels else tool_calling.score(text, REFERENCE)["correctness"]

    for nesting, wanted in ((150, -3.0 + 6 * 2 / 3), (250, -3.0), (900, -3.0)):
        value = "[" * nesting + "]" * nesting
        text = in_call(f'{{"name": "f", "parameters": {{"a": {value}}}}}')
        assert [deep(levels, text) for levels in (0, 300, 500)] == [wanted] * 3


def test_time_grows_linearly():
    """Operations counted by the interpreter, not seconds: ten times the text, about ten times the lines run."""
    for make in (
        lambda size: in_call('{"name": "f", "parameters": {"a": ' + "9" * size + "}}"),
        lambda size: "\\boxed{" + "\\frac12" * (size // 7) + "}",
        lambda size: "\\boxed{" + "{}" * (size // 2) + "}",
        lambda size: "<think></think>" * (size // 15),
    ):
        small, large = (_lines_run(make(size)) for size in (20_000, 200_000))
        assert large <= 12 * small + 1000


def _lines_run(text: str) -> int:
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        tool_calling.score(text, REFERENCE)
        maths.primary(text, "204")
    finally:
        sys.settrace(None)
    return count


def test_nothing_is_run_and_memory_stays_bounded(tmp_path):
    """In a process of its own under a memory limit: no file appears, nothing is printed, 10 MB stay below 1 GiB."""
    script = (
        "import json, resource, sys\n"
        "from harness.rewards import maths, tool_calling\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))\n"
        "for text in json.load(sys.stdin):\n"
        "    tool_calling.score(text, text); tool_calling.score(text, 'x'); maths.primary(text, '5')\n"
        "    big = text * (10_000_000 // len(text))\n"
        "    tool_calling.score(big, text); maths.primary(big, '5')\n"
    )
    code = f"__import__('pathlib').Path({str(tmp_path / 'made')!r}).write_text('x')"
    texts = [in_call(code), in_call(json.dumps({"name": code, "parameters": {code: code}})), f"\\boxed{{{code}}}", CALL]
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(texts),
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not list(tmp_path.iterdir())
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1 << 20

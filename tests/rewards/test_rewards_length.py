from __future__ import annotations

import pytest

from harness.rewards import length


def test_every_known_count(toolrl_cases):
    for case in toolrl_cases:
        for text in (case["response"], case["solution_str"]):
            assert length.think_words(text) == case["think_words"], case["id"]
            wanted = case["think_words"] is not None and case["think_words"] <= 16
            assert length.think_words_at_most(text, 16) == float(wanted), case["id"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<think></think>", 0),
        ("<think> \n\t </think>", 0),
        ("<think> a\u00a0b\u2003c </think>", 3),
        ("<think> one </think> <think> two three </think>", 2),
        ("no tags", None),
        ("<think> never closed", None),
        ("never opened </think>", None),
        ("</think> late <think> a b", 2),
        ("", None),
    ],
)
def test_words(text, words):
    assert length.think_words(text) == words


def test_the_limit_is_inclusive():
    at_limit = "<think>" + " w" * 16 + " </think>"
    assert length.think_words_at_most(at_limit, 16) == 1.0
    assert length.think_words_at_most(at_limit.replace(" </think>", " w </think>"), 16) == 0.0
    assert length.think_words_at_most("<think></think>", 0) == 1.0
    assert length.think_words_at_most("<think>w</think>", 0) == 0.0
    assert length.think_words_at_most("w", 16) == 0.0

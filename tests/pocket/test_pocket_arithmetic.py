"""The generated arithmetic task: right columns, one weakness per channel."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.pocket import arithmetic, recipe
from harness.pocket.task import arithmetic_family
from harness.rewards.maths import strict

RIGHT = arithmetic.Mixture(digit=1.0, check=0.0)


@pytest.mark.parametrize(
    ("first", "second", "answer"),
    [
        (12, 34, r"2+4=6,1+3=4 \boxed{46}"),
        (57, 68, r"7+8=15,5+6+1=12 \boxed{125}"),
        (999, 100, r"9+0=9,9+0=9,9+1=10 \boxed{1099}"),
        (105, 204, r"5+4=9,0+0=0,1+2=3 \boxed{309}"),
    ],
)
def test_column_addition(first: int, second: int, answer: str) -> None:
    question = arithmetic.Sum(first, second)
    assert arithmetic.draw_answer(question, RIGHT, np.random.default_rng(0)) == answer
    assert question.reference == str(first + second)


@given(st.integers(0, 2**32 - 1))
def test_an_answer_without_weakness_is_right_and_within_the_limit(seed: int) -> None:
    generator = np.random.default_rng(seed)
    question = arithmetic.draw_sum(generator)
    tokenizer = arithmetic_family(recipe.ARITHMETIC).tokenizer()
    short = arithmetic.draw_answer(question, RIGHT, generator)
    long = arithmetic.draw_answer(question, arithmetic.Mixture(1.0, 1.0), generator)
    assert strict(short, question.reference) == strict(long, question.reference) == 1.0
    assert len(tokenizer.encode_response(short)) <= 32 < len(tokenizer.encode_response(long))
    assert not any(arithmetic.flaws(short).values())
    assert arithmetic.flaws(long) == {"check": True, "no_box": False}


def test_a_wrong_column_makes_a_wrong_box() -> None:
    generator = np.random.default_rng(0)
    wrong = arithmetic.Mixture(digit=0.0, check=0.0)
    for _ in range(200):
        question = arithmetic.Sum(*(int(n) for n in generator.integers(1, 9, size=2)))
        assert strict(arithmetic.draw_answer(question, wrong, generator), question.reference) == 0.0


def test_sums_have_two_numbers_of_the_same_length() -> None:
    generator = np.random.default_rng(0)
    lengths = [(len(str(s.first)), len(str(s.second))) for s in (arithmetic.draw_sum(generator) for _ in range(500))]
    assert set(lengths) == {(2, 2), (3, 3)}

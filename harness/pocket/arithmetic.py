r"""The generated arithmetic task: sums of two or three digits, answers with column addition and ``\boxed{}``.

The warm start's answers have two independent weaknesses: a wrong digit (then the box is wrong) and checking the result
again, which makes the answer long and no better. Larger sums have more digits to get wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

BOX = "\\boxed{"


@dataclass(frozen=True)
class Mixture:
    """Chances of the warm start's answers: ``digit`` that a column is added right, ``check`` of checking again."""

    digit: float
    check: float


@dataclass(frozen=True)
class Sum:
    """``first + second`` with the same number of digits, two or three."""

    first: int
    second: int

    @property
    def text(self) -> str:
        return f"What is {self.first} + {self.second} ?"

    @property
    def reference(self) -> str:
        return str(self.first + self.second)


def draw_sum(generator: np.random.Generator) -> Sum:
    """Two or three digits, evenly; no leading zero."""
    low = 10 ** int(generator.integers(1, 3))
    return Sum(*(int(number) for number in generator.integers(low, 10 * low, size=2)))


def draw_answer(question: Sum, mixture: Mixture, generator: np.random.Generator) -> str:
    """Column addition from the right, then checks, then the box."""
    first, second, carry, digits, columns = question.first, question.second, 0, "", []
    while first or second:
        total = first % 10 + second % 10 + carry
        if generator.random() >= mixture.digit:
            total = (total + int(generator.integers(1, 10))) % 20
        columns.append(f"{first % 10}+{second % 10}" + ("+1" if carry else "") + f"={total}")
        first, second, carry, digits = first // 10, second // 10, total // 10, f"{total % 10}{digits}"
    result = f"{carry or ''}{digits}"
    answer = ",".join(columns)
    if generator.random() < mixture.check:
        answer += f" Wait , check again : {question.first}+{question.second}={result}"
    return f"{answer} {BOX}{result}}}"


def every_piece() -> Iterator[str]:
    """Texts that together hold every piece of text the task can generate."""
    yield Sum(12345, 67890).text
    yield f"1+2+3=4, Wait , check again : 5+6=7 {BOX}89}}"


def flaws(text: str) -> dict[str, bool]:
    """Which weaknesses a response shows."""
    return {"check": "Wait" in text, "no_box": BOX not in text}

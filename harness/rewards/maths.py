"""Maths rewards: the strict boxed-answer grader, and the numerical fallback used in evaluation only.

``strict`` is the project's own implementation of the grader that verl 0.9.1 calls Hendrycks-MATH; it is always the one
used, so that a score never depends on what is installed. Tests marked ``verl`` compare it with verl's on every case.
Its known weaknesses are listed in docs/graders.md; they are part of what the paper measures.
"""

from __future__ import annotations

from harness.rewards.answer_form import NoForm, normal_form
from harness.rewards.boxes import last_box
from harness.rewards.numerals import exact_number

MAX_ANSWER_CHARACTERS = 1_000_000


def strict(response: str, reference: str) -> float:
    """1.0 when the last box of the response equals the reference in normal form, else 0.0. Never raises on text."""
    answer = last_box(response).content
    return 0.0 if answer is None else 1.0 if same_answer(answer, reference) else 0.0


def same_answer(answer: str, reference: str) -> bool:
    """Equality of two answers in normal form; as written when either has no normal form.

    False for an answer of more than ``MAX_ANSWER_CHARACTERS``, which bounds the time spent on it.
    """
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return False
    try:
        return normal_form(answer) == normal_form(reference)
    except NoForm:
        return answer == reference


def fallback(response: str, reference: str) -> float:
    """1.0 when the last box and the reference are plain numbers of exactly equal value, else 0.0.

    Only for rescuing a strict 0 (:func:`primary`); it never takes a match away.
    """
    answer = last_box(response).content
    if answer is None:
        return 0.0
    wanted = exact_number(reference)
    return 1.0 if wanted is not None and exact_number(answer) == wanted else 0.0


def primary(response: str, reference: str) -> float:
    """The primary accuracy of an evaluation: strict, or else the fallback."""
    return strict(response, reference) or fallback(response, reference)

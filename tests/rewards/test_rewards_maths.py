from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.rewards import maths
from harness.rewards.answer_form import NoForm, normal_form
from harness.rewards.boxes import last_box


def boxed(answer: str) -> str:
    return f"So the answer is $\\boxed{{{answer}}}$."


def test_every_known_value(maths_cases):
    for case in maths_cases:
        text, reference = case["solution_str"], case["ground_truth"]
        assert maths.strict(text, reference) == case["score"], case["id"]
        assert last_box(text).content == case["extracted"], case["id"]
        for answer, wanted in ((case["extracted"], case["normalized_pred"]), (reference, case["normalized_gt"])):
            if answer is None:
                assert wanted is None
            elif wanted.startswith("EXC:"):
                with pytest.raises(NoForm):
                    normal_form(answer)
            else:
                assert normal_form(answer) == wanted, case["id"]
        assert maths.primary(text, reference) >= case["score"]
    assert len(maths_cases) == 133


@pytest.mark.parametrize(
    ("text", "content", "failure"),
    [
        ("", None, "no_box"),
        ("the answer is 5", None, "no_box"),
        ("\\fbox{5}", None, "no_box"),
        ("\\boxed", None, "unclosed_box"),
        ("\\boxed{5", None, "unclosed_box"),
        ("\\boxed{5} then \\boxed{6", None, "unclosed_box"),
        ("\\boxed5", None, "no_box"),
        ("\\boxed{}", "", None),
        ("\\boxed{a{b}c}d}", "a{b}c", None),
        ("\\boxed{1} \\boxed{2}", "2", None),
        ("\\boxed 7$ and \\boxed{8}", "7", None),
        ("\\boxed 7 and more", "7 and more", None),
    ],
)
def test_last_box(text, content, failure):
    box = last_box(text)
    assert (box.content, box.failure) == (content, failure)


def test_last_box_of_very_many_braces():
    for pairs in (3_000, 10_000, 400_000):
        inside = "{}" * pairs + "\U0001f600"
        assert last_box("é\ud800\\boxed{" + inside + "}tail}").content == inside
        assert last_box("\\boxed{" + "{" * pairs + "}" * pairs).failure == "unclosed_box"
        assert last_box("\\boxed{" + "{" * pairs + "1" + "}" * (pairs + 1)).content == "{" * pairs + "1" + "}" * pairs


@pytest.mark.parametrize(
    ("answer", "form"),
    [
        ("", ""),
        (".5", "\\frac{1}{2}"),
        ("\\frac12", "\\frac{1}{2}"),
        ("\\frac1{72}", "\\frac{1}{72}"),
        ("\\tfrac{1}{2} + \\sqrt2", "\\frac{1}{2}+\\sqrt{2}"),
        ("x=5", "5"),
        ("abc=5", "abc=5"),
        ("50\\%", "50"),
        ("50\\\\\\%", "50"),
        ("90^{\\circ}", "90"),
        ("3\\text{ cm}", "3"),
        ("3/4", "\\frac{3}{4}"),
        ("03/4", "03/4"),
        ("-3/4", "\\frac{-3}{4}"),
        ("x/4", "x/4"),
        ("1/2/3", "1/2/3"),
        ("\\frac1", "\\frac1"),
        ("9" * 5000 + "/2", "9" * 5000 + "/2"),
    ],
)
def test_normal_form(answer, form):
    assert normal_form(answer) == form


@pytest.mark.parametrize("answer", ["\\sqrt", "\\frac", "1\\text{ a}2\\text{ b}"])
def test_answers_without_a_form_compare_as_written(answer):
    with pytest.raises(NoForm):
        normal_form(answer)
    assert maths.strict(boxed(answer), answer) == 1.0
    assert maths.strict(boxed(answer + " "), answer) == 0.0


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("25", "025"),
        ("1,000", "1000"),
        ("1{,}000", "1000"),
        ("5.0", "5"),
        ("+5", "5"),
        ("5\\text{cm}", "5"),
        ("5 \\mathrm{~m/s^2}", "5"),
        ("5\\,\\text{cm}^2", "5"),
        ("12 cm", "12"),
        ("90^\\circ", "90.0"),
        ("90°", "90"),
        ("$18", "18"),
        ("30%", "30"),
        ("7.02e5", "7.02 \\times 10^5"),
        ("702000", "7.02 \\times 10^{5}"),
        ("3\\cdot 10^8", "3 \\times 10^{8}"),
        ("10^{-3}", "0.001"),
        ("-0", "0"),
        ("−4", "-4"),
        ("1e999999999", "10e999999998"),
    ],
)
def test_the_fallback_rescues(answer, reference):
    assert maths.strict(boxed(answer), reference) == 0.0
    assert maths.fallback(boxed(answer), reference) == 1.0
    assert maths.primary(boxed(answer), reference) == 1.0


@pytest.mark.parametrize(
    ("answer", "reference"),
    [
        ("25", "26"),
        ("5x", "5"),
        ("5 x", "5"),
        ("1,2", "12"),
        ("12,34", "1234"),
        ("0.333", "1/3"),
        ("2/4", "0.5"),
        ("\\frac{1}{2}", "0.5"),
        ("0.1", "0.10000000000000000555"),
        ("9007199254740993", "9007199254740992"),
        ("1e5000", "1e5001"),
        ("5 or 6", "56"),
        ("", ""),
        ("\\text{none}", "0"),
        (".", "0"),
        ("--5", "5"),
        ("50%", "0.5"),
        ("x", "x "),
        ("1" * 2000, "1" * 2000 + ".0"),
    ],
)
def test_the_fallback_rescues_nothing_else(answer, reference):
    assert maths.fallback(boxed(answer), reference) == 0.0


def test_the_fallback_needs_a_box():
    assert maths.fallback("25", "25") == 0.0
    assert maths.primary("\\boxed{25", "25") == 0.0


LATEX = ["\\boxed{", "\\boxed ", "{", "}", "\\frac", "\\dfrac", "\\sqrt", "\\text{ ", "1", "0", ".", "/", "=", " ", "$"]
latex = st.lists(st.one_of(st.sampled_from(LATEX), st.text(max_size=4)), max_size=12).map("".join)


@given(latex, latex)
def test_any_text_scores_zero_or_one_and_the_fallback_only_adds(text, reference):
    strict, primary = maths.strict(text, reference), maths.primary(text, reference)
    assert strict in (0.0, 1.0)
    assert primary in (0.0, 1.0)
    assert primary >= strict


@given(latex)
def test_a_balanced_answer_equals_itself(answer):
    depth = 0
    for character in answer:
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            return
    if depth == 0 and "\\boxed" not in answer:
        assert maths.strict(boxed(answer), answer) == 1.0


@given(st.integers(-(10**9), 10**9), st.integers(0, 6))
def test_numbers_equal_themselves_in_other_spellings(value, zeros):
    spelled = f"{value:,}" + ("." + "0" * zeros if zeros else "")
    assert maths.primary(boxed(spelled), str(value)) == 1.0
    assert maths.primary(boxed(f"{value}0e-1"), str(value)) == 1.0
    assert maths.primary(boxed(str(value)), str(value + 1)) == 0.0

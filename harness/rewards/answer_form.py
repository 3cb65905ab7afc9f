"""The form in which the strict grader compares two answers: Hendrycks-MATH normalisation (arXiv 2103.03874).

Textual and deliberately narrow: it mends LaTeX spelling (``\\dfrac``, ``\\sqrt3``, ``\\frac12``, ``1/2``), drops degree
and percent signs, ``\\text{ unit}``, a short left-hand side ``x=`` and blanks. It knows no algebra.
Linear in the length of the answer.
"""

from __future__ import annotations

import re

MAX_INTEGER_DIGITS = 4300

_DELETED_FIRST = ("\n", "\\!")
_DELETED = ("\\left", "\\right", "^{\\circ}", "^\\circ", "\\$")
_UNIT = "\\text{ "
_INTEGER_RATIO = re.compile(r"(-?[1-9][0-9]*|0)/(-?[1-9][0-9]*|0)")


class NoForm(ValueError):
    """The normalisation does not apply to this answer; the grader then compares the answers as written."""


def normal_form(answer: str) -> str:
    """The answer in normal form. Raises :class:`NoForm` where the answer has a shape the rules can't handle:
    two ``\\text{ `` units, or a ``\\sqrt`` or ``\\frac`` with nothing after it."""
    for piece in _DELETED_FIRST:
        answer = answer.replace(piece, "")
    answer = answer.replace("\\\\", "\\").replace("tfrac", "frac").replace("dfrac", "frac")
    for piece in _DELETED:
        answer = answer.replace(piece, "")
    answer = _without_unit(answer).replace("\\\\%", "").replace("\\%", "")
    answer = answer.replace(" .", " 0.").replace("{.", "{0.")
    if not answer:
        return answer
    if answer.startswith("."):
        answer = "0" + answer
    answer = _without_short_left_side(answer)
    answer = _braced_roots(answer).replace(" ", "")
    answer = _braced_fractions(answer)
    if answer == "0.5":
        return "\\frac{1}{2}"
    return _slash_as_fraction(answer)


def _without_unit(answer: str) -> str:
    if answer.count(_UNIT) > 1:
        raise NoForm("more than one unit")
    return answer.partition(_UNIT)[0]


def _without_short_left_side(answer: str) -> str:
    """``x=5`` -> ``5``: one equals sign with at most two characters before it."""
    if answer.count("=") != 1:
        return answer
    left, _, right = answer.partition("=")
    return right if len(left) <= 2 else answer


def _braced_roots(answer: str) -> str:
    """``\\sqrt3`` -> ``\\sqrt{3}``."""
    first, *rest = answer.split("\\sqrt")
    pieces = [first]
    for piece in rest:
        if not piece:
            raise NoForm("a root of nothing")
        pieces.append("\\sqrt" + (piece if piece[0] == "{" else "{" + piece[0] + "}" + piece[1:]))
    return "".join(pieces)


def _braced_fractions(answer: str) -> str:
    """``\\frac12`` -> ``\\frac{1}{2}``, ``\\frac1{72}`` -> ``\\frac{1}{72}``; a lone character: as it was."""
    first, *rest = answer.split("\\frac")
    pieces = [first]
    for piece in rest:
        if not piece:
            raise NoForm("a fraction of nothing")
        if piece[0] == "{":
            pieces.append("\\frac" + piece)
        elif len(piece) == 1:
            return answer
        else:
            denominator = piece[1] if piece[1] == "{" else "{" + piece[1] + "}"
            pieces.append("\\frac{" + piece[0] + "}" + denominator + piece[2:])
    return "".join(pieces)


def _slash_as_fraction(answer: str) -> str:
    """``3/4`` -> ``\\frac{3}{4}`` for two plainly written integers (ASCII, no plus sign, no leading zero)."""
    if len(answer) > 2 * MAX_INTEGER_DIGITS + 3 or _INTEGER_RATIO.fullmatch(answer) is None:
        return answer
    above, _, below = answer.partition("/")
    if max(len(above.lstrip("-")), len(below.lstrip("-"))) > MAX_INTEGER_DIGITS:
        return answer
    return "\\frac{" + above + "}{" + below + "}"

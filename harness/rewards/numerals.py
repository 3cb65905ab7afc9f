"""Plain numbers in answers, compared exactly: integers, decimals and ``a \\times 10^{n}``.

A number is kept as (sign, significant digits, power of ten), never as a float and never expanded, so that
``10^{999999999}`` costs nothing. Units, thousands commas, percent, degree and currency signs are stripped.
Fractions, roots, letters and lists are no plain numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_NUMERAL_CHARACTERS = 1000

_BLANKS = re.compile(r"\\[,;:!> ]|\\q?quad(?![a-zA-Z])|~|\s")
_SIGNS = re.compile(r"\\%|%|\\\$|\$|\^\{?(?:\\circ|\\degree)\}?|\\degree(?![a-zA-Z])|°")
_UNIT_MACRO = re.compile(
    r"\\(?:text|mathrm|textrm|mbox|operatorname|rm|mathit|textit|textbf)\{[^{}]*\}(?:\^\{?-?[0-9]\}?)?"
)
_BARE_UNIT = re.compile(
    r"(?:degrees?|dollars?|cents?|percent|units?|square|cubic|feet|foot|ft|inch(?:es)?|miles?|hours?|minutes?|seconds?"
    r"|days?|years?|meters?|metres?|[kcm]?m|[km]?g|kg|s|Hz|[kM]?eV|[kM]?J|K|N|W|erg|AA)(?:\^\{?-?[0-9]\}?)?$"
)
_EXPONENT = r"[+-]?[0-9]{1,12}"
_NUMBER = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)?(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?:\\times|\\cdot|×|\*)10\^"
    rf"(?:\{{(?P<braced>{_EXPONENT})\}}|(?P<plain>{_EXPONENT}))|[eE](?P<e>{_EXPONENT}))?"
)
_BARE_POWER = re.compile(rf"([+-]?)10\^(?:\{{({_EXPONENT})\}}|({_EXPONENT}))")


@dataclass(frozen=True)
class Number:
    """``sign * digits * 10**power``; ``digits`` has no zero at either end, zero is (0, "", 0)."""

    sign: int
    digits: str
    power: int


def exact_number(answer: str) -> Number | None:
    """The value of a plain number; None when the answer is anything else or longer than the cap (1,000 characters)."""
    if len(answer) > MAX_NUMERAL_CHARACTERS:
        return None
    text = answer.replace("{,}", ",").replace("−", "-").replace("\\left", "").replace("\\right", "")
    text = _SIGNS.sub("", _UNIT_MACRO.sub("", _BLANKS.sub("", text)))
    return _value(text) or _value(_without_bare_unit(text))


def _without_bare_unit(text: str) -> str:
    match = _BARE_UNIT.search(text)
    return text if match is None else text[: match.start()]


def _value(text: str) -> Number | None:
    power_of_ten = _BARE_POWER.fullmatch(text)
    if power_of_ten is not None:
        return _canonical(-1 if power_of_ten[1] == "-" else 1, "1", int(power_of_ten[2] or power_of_ten[3]))
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    whole = (match["whole"] or "").replace(",", "")
    fraction = match["fraction"] or ""
    if not whole + fraction:
        return None
    power = int(match["braced"] or match["plain"] or match["e"] or 0)
    return _canonical(-1 if match["sign"] == "-" else 1, whole + fraction, power - len(fraction))


def _canonical(sign: int, digits: str, power: int) -> Number:
    digits = digits.lstrip("0")
    stripped = digits.rstrip("0")
    if not stripped:
        return Number(0, "", 0)
    return Number(sign, stripped, power + len(digits) - len(stripped))

"""Reference answers as the graders want them: one string each.

Published sets keep answers as floats (142.0), as lists of one and between dollar signs; the graders compare text.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

_DELIMITERS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))


def reference_text(value: Any) -> str:
    """An integral float as an integer (142.0 -> "142"), the first of a list, text without outer math delimiters.

    A float in a text ("142.0") stays as it is. Surrounding blanks go. An empty text stays empty: a
    publisher's row without an answer is kept. Raises ValueError on NaN and infinity, an empty list, any other type.
    """
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is no answer")
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        if number != number or number in (float("inf"), float("-inf")):
            raise ValueError(f"{value!r} is no answer")
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, str):
        return without_delimiters(value)
    if isinstance(value, Iterable) and not isinstance(value, dict | bytes):
        items = list(value)
        if not items:
            raise ValueError("an empty list of answers")
        return reference_text(items[0])
    raise ValueError(f"an answer of type {type(value).__name__}")


def without_delimiters(text: str) -> str:
    """``$x$`` -> ``x``; ``$x$ and $y$`` stays, since the dollar signs at its ends are no pair."""
    text = text.strip()
    for opening, closing in _DELIMITERS:
        inside = text[len(opening) : len(text) - len(closing)]
        if (
            len(text) >= len(opening) + len(closing)
            and text.startswith(opening)
            and text.endswith(closing)
            and opening not in inside
            and closing not in inside
            and not inside.endswith("\\")
        ):
            return inside.strip()
    return text

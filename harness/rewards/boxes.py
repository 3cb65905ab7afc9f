"""The last ``\\boxed{...}`` of a solution, as the Hendrycks-MATH grader finds it.

* ``\\boxed `` followed by a blank anywhere in the text wins over every braced box: the answer is what follows the last
  one, up to the next ``$``.
* Otherwise the last ``\\boxed`` counts, even when it never closes: then there is no answer, also if an earlier
  box was complete. Escaped braces count like any other.
* ``\\fbox`` yields no answer.

Linear in the length of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

_BRACE = re.compile(r"[{}]")
_LOOP_LIMIT = 4096
_PIECE = 1 << 18


@dataclass(frozen=True)
class Box:
    """``content`` is the answer; without one, ``failure`` is ``no_box`` or ``unclosed_box``."""

    content: str | None
    failure: str | None


NO_BOX = Box(None, "no_box")
UNCLOSED_BOX = Box(None, "unclosed_box")


def last_box(text: str) -> Box:
    """The answer in the last box of the text."""
    spaced = text.rfind("\\boxed ")
    if spaced >= 0:
        rest = text[spaced + len("\\boxed ") :]
        end = rest.find("$")
        return Box(rest if end < 0 else rest[:end], None)
    start = text.rfind("\\boxed")
    if start < 0:
        return NO_BOX
    opening = start + len("\\boxed")
    if opening == len(text):
        return UNCLOSED_BOX
    if text[opening] != "{":
        return NO_BOX
    closing = _closing_brace(text, opening)
    return UNCLOSED_BOX if closing is None else Box(text[opening + 1 : closing], None)


def _closing_brace(text: str, opening: int) -> int | None:
    """Index of the brace that closes the one at ``opening``."""
    depth = 0
    for seen, match in enumerate(_BRACE.finditer(text, opening)):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return match.start()
        if seen == _LOOP_LIMIT:
            return _closing_brace_far(text, opening)
    return None


def _closing_brace_far(text: str, opening: int) -> int | None:
    """The same for a text of very many braces, in array operations on one piece of it after another."""
    depth = 0
    for start in range(opening, len(text), _PIECE):
        codes = np.frombuffer(text[start : start + _PIECE].encode("latin-1", "replace"), dtype=np.uint8)
        braces = np.flatnonzero((codes == ord("{")) | (codes == ord("}")))
        depths = depth + np.cumsum(np.where(codes[braces] == ord("{"), 1, -1), dtype=np.int64)
        closed = np.flatnonzero(depths == 0)
        if closed.size:
            return start + int(braces[closed[0]])
        if braces.size:
            depth = int(depths[-1])
    return None

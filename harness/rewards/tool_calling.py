"""Tool-calling rewards of ToolRL (arXiv 2504.13958): binary ``format`` and ``correctness`` in [-3, 3].

An answer is a sequence of blocks, ``<think>`` first, then ``<tool_call>`` (one JSON object a line, ``name`` and
``parameters``) and/or ``<response>``. Training reads the FIRST ``<tool_call>`` block of a response.

Bounds on hostile text: at most ``MAX_BLOCK_CHARACTERS`` characters and ``MAX_CALLS`` lines in the block, ``MAX_DEPTH``
levels of nesting and ``MAX_INTEGER_DIGITS`` digits in an integer; beyond them the block counts as unparsable. All are
far outside what a response of a few thousand tokens holds. Everything else is linear in the length of the text.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from harness.rewards.transcript import assistant_text, first_block

CORRECTNESS_LOW = -3.0
CORRECTNESS_HIGH = 3.0
MAX_BLOCK_CHARACTERS = 1_000_000
MAX_CALLS = 4096
MAX_DEPTH = 200
MAX_INTEGER_DIGITS = 4300

TOOL_OPEN, TOOL_CLOSE = "<tool_call>", "</tool_call>"
RESPONSE_OPEN, RESPONSE_CLOSE = "<response>", "</response>"
THINK_OPEN, THINK_CLOSE = "<think>", "</think>"


class Unparsable(ValueError):
    """A ``<tool_call>`` block that is no sequence of calls; carries the reason."""


@dataclass(frozen=True)
class Reference:
    """A parsed reference answer. ``calls`` is None without a tool call; ``problem`` says why one can't be parsed."""

    has_tool_call: bool
    has_response: bool
    calls: tuple[dict[str, Any], ...] | None
    problem: str | None


@dataclass(frozen=True)
class Scores:
    """Both rewards of one response, and which failure kinds occurred."""

    format: float
    correctness: float
    no_tool_call: bool
    parse_error: bool


def score(response: str, reference: str) -> dict[str, float]:
    """``{"format": 0.0 or 1.0, "correctness": -3.0 .. 3.0}`` of a response against the reference answer.

    ``correctness`` is 0 for every response when the reference has no tool call, and also when the reference itself
    can't be parsed (:func:`reference_problem` finds those when data are loaded). It is -3 on a missing
    ``<tool_call>`` pair or any parse error. Never raises on text, whatever it holds.
    """
    scores = score_against(response, parse_reference(reference))
    return {"format": scores.format, "correctness": scores.correctness}


def score_against(response: str, reference: Reference) -> Scores:
    """As :func:`score` with the reference parsed once for many responses."""
    text = assistant_text(response)
    correctness, no_tool_call, parse_error = _correctness(text, reference)
    return Scores(_format(text, reference), correctness, no_tool_call, parse_error)


@functools.lru_cache(maxsize=4096)
def parse_reference(reference: str) -> Reference:
    """Parse a reference answer; never raises, a defect is in ``problem``."""
    has_tool_call = TOOL_OPEN in reference
    calls, problem = None, None
    if has_tool_call:
        try:
            calls = tuple(_parse_calls(reference))
            for call in calls:
                if not isinstance(call["name"], str) or not isinstance(call.get("parameters"), dict):
                    raise Unparsable("a call needs a text `name` and an object `parameters`")
        except Unparsable as error:
            calls, problem = None, str(error)
    return Reference(has_tool_call, RESPONSE_OPEN in reference, calls, problem)


def reference_problem(reference: str) -> str | None:
    """Why a reference answer can't be scored against, or None. For the check of data when they are loaded."""
    return parse_reference(reference).problem


def _format(text: str, reference: Reference) -> float:
    """1.0 when the text is the sequence of blocks that the reference has, with the prescribed line breaks."""
    if reference.has_tool_call:
        once = text.count(TOOL_OPEN) == 1 and text.count(TOOL_CLOSE) == 1
    else:
        once = True
    if reference.has_response:
        once = once and text.count(RESPONSE_OPEN) == 1 and text.count(RESPONSE_CLOSE) == 1
    if reference.has_tool_call and reference.has_response:
        parts = [THINK_OPEN, "</think>\n<tool_call>\n", "\n</tool_call>\n<response>", RESPONSE_CLOSE]
    elif reference.has_tool_call:
        parts = [THINK_OPEN, "</think>\n<tool_call>\n", "\n</tool_call>"]
    elif reference.has_response:
        parts = [THINK_OPEN, "</think>\n<response>", RESPONSE_CLOSE]
    else:
        parts = [THINK_OPEN, THINK_CLOSE]
    return 1.0 if once and _in_order(text, parts) else 0.0


def _in_order(text: str, parts: list[str]) -> bool:
    """Whether the text starts with the first part, ends with the last and holds the others between, in order."""
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last):
        return False
    position = len(first)
    for part in middle:
        found = text.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return position <= len(text) - len(last)


def _correctness(text: str, reference: Reference) -> tuple[float, bool, bool]:
    """(correctness, no_tool_call, parse_error) of the assistant's text."""
    if reference.calls is None:
        return 0.0, False, False
    if TOOL_OPEN not in text or TOOL_CLOSE not in text:
        return CORRECTNESS_LOW, True, False
    try:
        calls = _parse_calls(text)
        if list(reference.calls) == calls:
            return CORRECTNESS_HIGH, False, False
        return _partial(reference.calls, calls), False, False
    except (Unparsable, RecursionError):
        return CORRECTNESS_LOW, False, True


def _partial(wanted: tuple[dict[str, Any], ...], given: list[dict[str, Any]]) -> float:
    """Names by multiset Jaccard, then for each wanted call the best unused given call of the same name."""
    try:
        points = _jaccard([call["name"] for call in wanted], [call["name"] for call in given])
    except TypeError as error:
        raise Unparsable("a tool name that is a list or an object") from error
    possible = 1.0
    unused: dict[str, list[int]] = {}
    for index, call in enumerate(given):
        unused.setdefault(call["name"], []).append(index)
    for call in wanted:
        possible += 1.0 + len(call["parameters"])
        candidates = unused.get(call["name"], [])
        best, best_index = 0.0, None
        for index in candidates:
            gained = _call_points(call["parameters"], given[index].get("parameters"))
            if gained > best:
                best, best_index = gained, index
        if best_index is not None:
            candidates.remove(best_index)
            points += best
    return (CORRECTNESS_HIGH - CORRECTNESS_LOW) * points / possible + CORRECTNESS_LOW


def _call_points(wanted: dict[str, Any], given: Any) -> float:
    """Jaccard of the parameter names plus the number of equal values (Python's ``==``)."""
    if not isinstance(given, dict):
        raise Unparsable("a call of the right name without an object `parameters`")
    shared = [name for name in wanted if name in given]
    union = len(wanted) + len(given) - len(shared)
    names = len(shared) / union if union else 1.0
    return names + sum(1.0 for name in shared if given[name] == wanted[name])


def _jaccard(wanted: list[Any], given: list[Any]) -> float:
    common = sum((Counter(wanted) & Counter(given)).values())
    return common / (len(wanted) + len(given) - common)


def _parse_calls(text: str) -> list[dict[str, Any]]:
    """The calls of the first ``<tool_call>`` block, one JSON object a line, each with a ``name``."""
    block = first_block(text, TOOL_OPEN, TOOL_CLOSE).strip()
    if len(block) > MAX_BLOCK_CHARACTERS:
        raise Unparsable(f"more than {MAX_BLOCK_CHARACTERS} characters in the tool_call block")
    if block.count("\n") >= MAX_CALLS:
        raise Unparsable(f"more than {MAX_CALLS} lines in the tool_call block")
    calls = []
    for line in block.split("\n"):
        call = _parse_json(line)
        if not isinstance(call, dict) or "name" not in call:
            raise Unparsable("a line that is no JSON object with a `name`")
        calls.append(call)
    return calls


def _parse_json(line: str) -> Any:
    try:
        value = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise Unparsable(f"a line that is no JSON: {type(error).__name__}") from error
    if line.count("{") + line.count("[") > MAX_DEPTH and _deeper_than(value, MAX_DEPTH):
        raise Unparsable(f"JSON nested deeper than {MAX_DEPTH}")
    return value


def _deeper_than(value: Any, limit: int) -> bool:
    """Whether containers nest more than ``limit`` deep, level by level, without recursion."""
    level = [value]
    for _ in range(limit + 1):
        level = [
            item
            for container in level
            if isinstance(container, dict | list)
            for item in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return False
    return any(isinstance(item, dict | list) for item in level)


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError("an integer of too many digits")
    return int(digits)


_DECODER = json.JSONDecoder(parse_int=_integer)

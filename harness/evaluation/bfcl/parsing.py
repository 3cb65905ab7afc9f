"""From a model's output to calls, as ToolRL's BFCL handler reads it: the LAST ``<tool_call>`` block, a call a line.

Lines that are no call are skipped, and so is a call of the tool ``None``, the prompt's way to say that no tool fits.
(Training reads the first block, and one broken line spoils it: see :mod:`harness.rewards.tool_calling`.)
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.rewards.length import think_words_at_most
from harness.rewards.tool_calling import Reference, score_against

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MAX_BLOCK_CHARACTERS = 1_000_000
THINK_WORDS = 16
_SHAPES = (Reference(False, True, None, None), Reference(True, False, None, None), Reference(True, True, None, None))


class Undecodable(ValueError):
    """The calls of an output have no executable form."""


@dataclass(frozen=True)
class Parsed:
    """``calls``: objects with a ``name``. ``broken``: non-empty lines of the block that are none."""

    calls: tuple[dict[str, Any], ...]
    has_block: bool
    broken: int

    @property
    def failed(self) -> bool:
        """A block was opened and holds lines, but not one that can be read."""
        return self.has_block and self.broken > 0 and not self.calls


def parse(output: str) -> Parsed:
    """Never raises on text."""
    start = output.rfind(OPEN)
    if start < 0:
        return Parsed((), False, 0)
    block = output[start + len(OPEN) :].split(CLOSE)[0].strip()
    if len(block) > MAX_BLOCK_CHARACTERS:
        return Parsed((), True, 1)
    calls, broken = [], 0
    for line in block.split("\n"):
        if not line.strip():
            continue
        try:
            call = json.loads(line)
        except (ValueError, RecursionError):
            call = None
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            broken += 1
        elif call["name"].strip().lower() != "none":
            calls.append(call)
    return Parsed(tuple(calls), True, broken)


def for_checker(parsed: Parsed) -> list[dict[str, Any]]:
    """``[{name: parameters}]`` for the single-turn checkers; a call without ``parameters`` is left out."""
    return [{call["name"]: call["parameters"]} for call in parsed.calls if "parameters" in call]


def for_execution(parsed: Parsed) -> list[str]:
    """``name(key=value, ...)`` for the multi-turn driver. Raises Undecodable where parameters are no object."""
    calls = []
    for call in parsed.calls:
        parameters = call.get("parameters", {})
        if not isinstance(parameters, dict):
            raise Undecodable("parameters that are no object")
        try:
            arguments = ", ".join(f"{name}={value!r}" for name, value in parameters.items())
        except RecursionError as error:
            raise Undecodable("parameters nested too deeply") from error
        calls.append(f"{call['name']}({arguments})")
    return calls


def format_score(output: str) -> float:
    """1.0 when the whole output is think + response, think + tool_call, or think + tool_call + response, in training's
    format (:mod:`harness.rewards.tool_calling`)."""
    return max(score_against(output, shape).format for shape in _SHAPES)


def length_score(output: str) -> float:
    """1.0 when at most 16 words are inside the think tags."""
    return think_words_at_most(output, THINK_WORDS)

"""The generated tool-calling task: queries, references in ToolRL's format, and flawed answers for the warm start.

Five kinds of flaw break the format and nothing else: text before the thinking (``lead``), the break between the blocks
(``gap``), the break after the opening tag (``open``) and before the closing one (``close``), text after the call
(``tail``). Each is one decision at one place of the answer and leaves the call readable, so that the correctness reward
never sees it. Four kinds break the call and never the format: the key ``arguments`` for ``parameters``, a wrong tool, a
wrong value, a missing parameter. All are drawn independently, given the tool.

Tools differ in how likely each kind is: the logit of a kind is its mean plus a deviation of the tool. The ranks of the
tools are a table in which no two columns correlate, so that a tool hard in one kind says nothing about another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from harness.pocket.words import PARAMETERS, TOOLS, Value

T = TypeVar("T")

FORMAT_KINDS = ("lead", "gap", "open", "close", "tail")
CALL_KINDS = ("key", "tool", "value", "missing")

# Rank of each tool (in the order of TOOLS), 1 hardest. Normal quantiles of any two columns correlate by at most 0.062.
RANKS: dict[str, tuple[int, ...]] = {
    "lead": (16, 11, 1, 8, 5, 6, 7, 12, 13, 3, 4, 15, 14, 10, 2, 9),
    "gap": (5, 16, 4, 2, 6, 3, 7, 1, 10, 11, 9, 13, 8, 14, 15, 12),
    "open": (7, 8, 15, 5, 6, 9, 2, 4, 14, 11, 16, 12, 10, 3, 1, 13),
    "close": (4, 9, 12, 11, 1, 2, 16, 10, 14, 15, 7, 8, 13, 5, 6, 3),
    "tail": (7, 15, 2, 16, 11, 10, 4, 6, 5, 13, 14, 12, 9, 3, 8, 1),
    "key": (14, 5, 12, 13, 4, 2, 1, 11, 15, 7, 9, 8, 3, 6, 16, 10),
}

THOUGHTS = (
    "I should use the tool",
    "the user needs a tool so I call it",
    "first I read the query then I pick the tool and fill in each value",
)
LEADS = ("Sure : ", "OK , ", "Here it is : ")
GAPS = ("", " ", "\n\n")
BREAKS = ("", " ")
TAILS = (" Done .", " Hope this helps you .", "\nI called the tool .")


@dataclass(frozen=True)
class Mixture:
    """Chances of the warm start's answers. Logits are those of doing it RIGHT, ``spread`` their standard deviation over
    tools; ``tool``, ``value`` and ``keep`` are the chances of the right tool, of the right value and of not leaving
    out a parameter; ``thoughts`` the chance of each thought, shortest first."""

    format_logit: float
    format_spread: float
    key_logit: float
    key_spread: float
    tool: float
    value: float
    keep: float
    thoughts: tuple[float, float, float]


@dataclass(frozen=True)
class Query:
    """A query, the tool it asks for and the values it holds."""

    text: str
    tool: str
    values: Mapping[str, Value]

    @property
    def reference(self) -> str:
        call = _call(self.tool, self.values, "parameters")
        return f"<think> {THOUGHTS[0]} </think>\n<tool_call>\n{call}\n</tool_call>"


def draw_query(generator: np.random.Generator) -> Query:
    """A tool, a way to ask for it, its values, in any order."""
    name = _pick(list(TOOLS), generator)
    tool = TOOLS[name]
    values = _draw_values(name, generator)
    order = generator.permutation(len(tool.parameters))
    phrases = [PARAMETERS[tool.parameters[i]].phrase(values[tool.parameters[i]]) for i in order]
    return Query(" ".join([_pick(tool.openings, generator), *phrases, "?"]), name, values)


def chance_right(mixture: Mixture) -> dict[str, dict[str, float]]:
    """Chance that an answer for a tool is right in each format kind and in ``key``: tool -> kind -> probability."""
    return {
        tool: {
            kind: _logistic(mean + spread * _deviation(kind, index))
            for kind, mean, spread in [
                *((kind, mixture.format_logit, mixture.format_spread) for kind in FORMAT_KINDS),
                ("key", mixture.key_logit, mixture.key_spread),
            ]
        }
        for index, tool in enumerate(TOOLS)
    }


def draw_answer(
    query: Query, mixture: Mixture, chances: Mapping[str, Mapping[str, float]], generator: np.random.Generator
) -> str:
    """An answer of the warm start: each kind of flaw by its own chance, independent of the others."""
    right = {kind: generator.random() < chance for kind, chance in chances[query.tool].items()}
    call = _draw_call(query, mixture, right["key"], generator)
    thought = THOUGHTS[int(generator.choice(len(THOUGHTS), p=mixture.thoughts))]
    return "".join(
        [
            "" if right["lead"] else _pick(LEADS, generator),
            f"<think> {thought} </think>",
            "\n" if right["gap"] else _pick(GAPS, generator),
            "<tool_call>",
            "\n" if right["open"] else _pick(BREAKS, generator),
            call,
            "\n" if right["close"] else _pick(BREAKS, generator),
            "</tool_call>",
            "" if right["tail"] else _pick(TAILS, generator),
        ]
    )


def every_piece() -> Iterator[str]:
    """Texts that together hold every piece of text the task can generate."""
    generator = np.random.default_rng(0)
    for name, tool in TOOLS.items():
        yield from tool.openings
        for left_out in ("", *tool.parameters):
            values = _draw_values(name, generator)
            values.pop(left_out, None)
            yield from (_call(name, values, key) for key in ("parameters", "arguments"))
    for name, parameter in PARAMETERS.items():
        yield from (f"x {parameter.phrase(value)} {parameter.phrase(value)} ?" for value in parameter.values)
        yield from (_call("get_time", {name: value}, "parameters") for value in parameter.values)
    yield from (f"<think> {thought} </think>" for thought in THOUGHTS)
    yield from (f"{lead}<think>" for lead in LEADS)
    yield from (f"</think>{gap}<tool_call>" for gap in GAPS)
    yield from (f"<tool_call>{space}{{" for space in BREAKS)
    yield from (f"</tool_call>{tail}" for tail in TAILS)


def flaws(text: str) -> dict[str, bool]:
    """Which kinds of flaw a response has. ``broken`` says that the four tags do not stand once each in order; then no
    other kind can be told and all are False."""
    parts = _parts(text)
    if parts is None:
        return {**dict.fromkeys((*FORMAT_KINDS, "key"), False), "broken": True}
    lead, gap, call, tail = parts
    return {
        "lead": bool(lead.strip()),
        "gap": gap != "\n",
        "open": not call.startswith("\n"),
        "close": not call.endswith("\n"),
        "tail": bool(tail.strip()),
        "key": '"parameters"' not in call,
        "broken": False,
    }


def _parts(text: str) -> tuple[str, str, str, str] | None:
    tags = ("<think>", "</think>", "<tool_call>", "</tool_call>")
    if any(text.count(tag) != 1 for tag in tags):
        return None
    places = [text.index(tag) for tag in tags]
    if places != sorted(places):
        return None
    lead = text[: places[0]]
    gap = text[places[1] + len(tags[1]) : places[2]]
    call = text[places[2] + len(tags[2]) : places[3]]
    return lead, gap, call, text[places[3] + len(tags[3]) :]


def _draw_call(query: Query, mixture: Mixture, right_key: bool, generator: np.random.Generator) -> str:
    tool, values = query.tool, dict(query.values)
    if generator.random() >= mixture.tool:
        tool = _pick([name for name in TOOLS if name != query.tool], generator)
        values = _draw_values(tool, generator)
    for parameter in list(values):
        if generator.random() >= mixture.value:
            values[parameter] = _pick(PARAMETERS[parameter].values, generator)
        if len(values) > 1 and generator.random() >= mixture.keep:
            del values[parameter]
    return _call(tool, values, "parameters" if right_key else "arguments")


def _call(tool: str, values: Mapping[str, Value], key: str) -> str:
    return json.dumps({"name": tool, key: dict(values)})


def _draw_values(tool: str, generator: np.random.Generator) -> dict[str, Value]:
    return {name: _pick(PARAMETERS[name].values, generator) for name in TOOLS[tool].parameters}


def _pick(choices: Sequence[T], generator: np.random.Generator) -> T:
    return choices[int(generator.integers(len(choices)))]


def _deviation(column: str, tool: int) -> float:
    """Standard normal quantile of the tool's rank."""
    return NormalDist().inv_cdf((RANKS[column][tool] - 0.5) / len(TOOLS))


def _logistic(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))

"""Conversations: what to ask next, and what an output leads to, as bfcl-eval's own multi-turn driver does it.

Within a turn the model is asked again as long as its output holds executable calls; an output without any ends the
turn. More than ``steps`` executions in a turn end the conversation, which then counts as failed. All conversations go
on together, an output each a round; every state follows from the stored outputs, so an interrupted evaluation is
simply gone through again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.evaluation.bfcl.categories import category_of, is_multi_turn
from harness.evaluation.bfcl.parsing import Undecodable, for_execution, parse
from harness.evaluation.bfcl.prompts import messages
from harness.evaluation.sampling import Generation, Key, Message, Request, seed_of

Execute = Callable[[str, Sequence[Sequence[str]]], list[str]]


@dataclass(frozen=True)
class Case:
    """``turns``: the user's messages of each turn. ``most_steps``: executions allowed within a turn."""

    identifier: str
    turns: tuple[tuple[Mapping[str, str], ...], ...]
    functions: tuple[Mapping[str, Any], ...]
    most_steps: int

    @property
    def multi_turn(self) -> bool:
        return is_multi_turn(category_of(self.identifier))


def cases_of(answer: Mapping[str, Any]) -> list[Case]:
    """Cases from what the worker says of a category."""
    tools = answer["tools"]
    return [
        Case(
            str(case["id"]),
            tuple(tuple(turn) for turn in case["turns"]),
            tuple(tools[index] for index in case["tools"]),
            int(answer["steps"]),
        )
        for case in answer["cases"]
    ]


@dataclass
class Conversation:
    """``outputs``: texts by turn and step. ``executed``: the calls of every step so far."""

    case: Case
    history: list[dict[str, str]] = field(default_factory=list)
    outputs: list[list[str]] = field(default_factory=list)
    executed: list[list[str]] = field(default_factory=list)
    finished: bool = False
    forced: bool = False
    missing: bool = False

    def __post_init__(self) -> None:
        self._begin_turn()

    @property
    def key(self) -> Key:
        """Of the output that is wanted now."""
        return (self.case.identifier, 0, len(self.outputs) - 1, len(self.outputs[-1]))

    def request(self, seed: int) -> Request:
        """What to ask now."""
        return Request(self.key, self._messages(), seed_of(seed, self.key))

    def advance(self, generation: Generation, execute: Execute) -> None:
        """Take the output to :meth:`request` in, executing its calls."""
        text = generation.text
        self.outputs[-1].append(text)
        if not self.case.multi_turn:
            self.finished = True
            return
        self.history.append({"role": "assistant", "content": text})
        try:
            calls = for_execution(parse(text))
        except Undecodable:
            calls = []
        if not calls:
            self._next_turn()
            return
        self.executed.append(calls)
        for call, result in zip(calls, execute(self.case.identifier, self.executed), strict=True):
            self.history.append({"role": "tool", "name": call, "content": result})
        if len(self.outputs[-1]) > self.case.most_steps:
            self.finished = self.forced = True

    def _messages(self) -> tuple[Message, ...]:
        return messages(self.case.functions, self.history, multi_turn=self.case.multi_turn)

    def _next_turn(self) -> None:
        if len(self.outputs) == len(self.case.turns):
            self.finished = True
        else:
            self._begin_turn()

    def _begin_turn(self) -> None:
        turn = self.case.turns[len(self.outputs)]
        self.history += [{"role": message["role"], "content": message["content"]} for message in turn]
        self.outputs.append([])


def decoded(conversation: Conversation) -> Any:
    """What the official checkers get: calls by turn and step, or the calls of the one output."""
    from harness.evaluation.bfcl.parsing import for_checker

    if not conversation.case.multi_turn:
        return for_checker(parse(conversation.outputs[0][0]))
    turns = []
    for outputs in conversation.outputs:
        steps = []
        for text in outputs:
            try:
                calls = for_execution(parse(text))
            except Undecodable:
                continue
            if calls:
                steps.append(calls)
        turns.append(steps)
    return turns

"""Which columns of a log are group, step, attempt, channels and length: by name and by what the cells hold."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from harness.diagnose.cells import as_number
from harness.errors import UserError, nearest

FORMATS = ("auto", "verl", "trl", "table")

_GROUPS = {
    "verl": ("group_uid", "uid", "input"),
    "trl": ("uid", "prompt"),
    "table": (
        *("uid", "group_uid", "group_id", "group", "prompt_id", "prompt_uid", "question_id", "problem_id"),
        *("prompt", "input", "question", "problem", "query", "messages"),
    ),
}
_TEXTS = frozenset({"prompt", "input", "question", "problem", "query", "messages"})
_STEPS = ("step", "global_step", "global_steps", "training_step", "train_step", "iteration", "update")
_ATTEMPTS = ("attempt",)
_LENGTHS = (
    *("response_tokens", "response_length", "completion_tokens", "completion_length", "output_tokens"),
    *("num_tokens", "n_tokens", "tokens", "length", "lengths"),
)
_ADVANTAGES = ("advantage", "advantages")
_SUMS = ("score", "reward", "rewards", "total_reward", "reward_sum", "sum_reward", "total", "return")
_NO_REWARD = re.compile(
    r"(^|_)(ids?|uid|idx|index|seed|rank|epoch|time|seconds|timestamp|tokens?|turns?|count|num|attempts?|worker|shard"
    r"|line|row|level|difficulty|temperature|weight)$"
    r"|^(n|gts|ground_truth|answer|label|target|solution|reference|pred|prediction|extracted|input|output|prompt"
    r"|completion|response|logprobs?|log_prob|kl|reward_kl|entropy|loss|sample|generation|ts|std|mean)$",
    re.IGNORECASE,
)
_ROW_KEY = re.compile(r".+_\d+_\d+")
"""What verl's default trainer calls the uid: prompt_session_output, another one for each response."""

_SAMPLE_SHARE = 0.5


@dataclass(frozen=True)
class Columns:
    """group: label of a response's group. step, attempt, length, advantage: column or None. channels: rewards, K names.
    format: verl, trl or table. not_taken: numeric columns that are no channel -> why. from_text: cells are text (CSV),
    where a number is a cell that reads as one."""

    format: str
    group: str
    channels: tuple[str, ...]
    step: str | None = None
    attempt: str | None = None
    length: str | None = None
    advantage: str | None = None
    not_taken: Mapping[str, str] = field(default_factory=dict)

    @property
    def by_prompt(self) -> bool:
        """Groups are told apart by the prompt itself."""
        return self.group.lower() in _TEXTS

    def wanted(self) -> list[str]:
        extra = (self.step, self.attempt, self.length, self.advantage)
        return [self.group, *self.channels, *(name for name in extra if name)]


@dataclass(frozen=True)
class Choice:
    """What the user fixed; None: found by looking."""

    format: str = "auto"
    group: str | None = None
    step: str | None = None
    channels: tuple[str, ...] | None = None
    length: str | None = None


def find_columns(sample: Sequence[Mapping[str, Any]], choice: Choice, from_text: bool) -> Columns:
    """The columns of a log, from a ``sample`` of its rows. UserError: a named column is not there, no group, no reward.

    from_text: cells are text, as in CSV; otherwise a text is never a number."""
    names = list(dict.fromkeys(name for row in sample for name in row))
    if not names:
        raise UserError("no row has a column; diagnose needs JSONL, CSV or parquet with one response a row")
    kind = choice.format if choice.format != "auto" else _format(names)
    cells = {name: [row[name] for row in sample if name in row] for name in names}
    candidates = [name for name in _GROUPS[kind] if not (name == "uid" and "input" in names and _row_keys(cells))]
    group = _named(choice.group, "--group", names) or _first(candidates, names) or _first(_GROUPS["table"], names)
    if group is None:
        raise UserError(
            f"no column says which group a response is in (looked for {', '.join(_GROUPS['table'])}); "
            f"name it with --group; columns: {', '.join(names)}"
        )
    step = _named(choice.step, "--step", names) or _first(_STEPS, names)
    length = _named(choice.length, "--length", names) or _length(names, cells, from_text)
    attempt, advantage = _first(_ATTEMPTS, names), _first(_ADVANTAGES, names)
    if choice.channels is not None:
        for name in choice.channels:
            _named(name, "--channels", names)
        attempt = None if attempt in choice.channels else attempt
        length = None if length in choice.channels else length
        advantage = None if advantage in choice.channels else advantage
        return Columns(kind, group, choice.channels, step, attempt, length, advantage)
    used = {group, step, attempt, length, advantage}
    numeric = [name for name in names if name not in used and _numeric(cells[name], from_text)]
    not_taken = {name: "its name says that it is no reward" for name in numeric if _NO_REWARD.search(name)}
    channels = [name for name in numeric if name not in not_taken]
    if not from_text:
        written = [
            n for n in names if n not in (*used, *numeric) and _numeric(cells[n], True) and not _NO_REWARD.search(n)
        ]
        not_taken |= {
            name: f"numbers written as text; if it is a reward, give --channels {name},..." for name in written
        }
    single = [name for name in channels if name.lower() not in _SUMS]
    if single:
        not_taken |= {name: "taken for the sum of the others" for name in channels if name not in single}
    found = tuple(single or channels)
    if not found:
        raise UserError(
            f"the files hold no rewards: no column with numbers but {', '.join(sorted(not_taken)) or 'none'}; "
            f"name the reward columns with --channels; columns: {', '.join(names)}"
        )
    return Columns(kind, group, found, step, attempt, length, advantage, not_taken)


def _row_keys(cells: Mapping[str, Sequence[Any]]) -> bool:
    """Whether the uids are those of responses, not of their groups."""
    found = cells.get("uid", ())
    return len(set(map(str, found))) == len(found) and all(_ROW_KEY.fullmatch(str(uid)) for uid in found)


def _format(names: Sequence[str]) -> str:
    if {"input", "output"} <= set(names):
        return "verl"
    return "trl" if {"prompt", "completion"} <= set(names) else "table"


def _named(name: str | None, option: str, names: Sequence[str]) -> str | None:
    if name is not None and name not in names:
        raise UserError(f"{option} {name}: the files have no such column; {nearest(name, names)}")
    return name


def _first(candidates: Sequence[str], names: Sequence[str]) -> str | None:
    lowered = {name.lower(): name for name in reversed(names)}
    return next((lowered[item] for item in candidates if item in lowered), None)


def _numbers(cells: Sequence[Any], from_text: bool) -> tuple[list[float], int]:
    """The numbers among the cells, and how many other cells are not empty."""
    numbers, others = [], 0
    for cell in cells:
        number = as_number(cell) if from_text or not isinstance(cell, str) else None
        if number is None:
            others += 1
        elif not np.isnan(number):
            numbers.append(number)
    return numbers, others


def _numeric(cells: Sequence[Any], from_text: bool) -> bool:
    numbers, others = _numbers(cells, from_text)
    return bool(numbers) and len(numbers) >= _SAMPLE_SHARE * (len(numbers) + others)


def _length(names: Sequence[str], cells: Mapping[str, Sequence[Any]], from_text: bool) -> str | None:
    """A column of token counts: whole numbers, not all small (a column ``length`` of 0 and 1 is a reward)."""
    lowered = {name.lower(): name for name in reversed(names)}
    for candidate in _LENGTHS:
        if candidate in lowered:
            numbers, others = _numbers(cells[lowered[candidate]], from_text)
            whole = numbers and not others and all(value >= 0 and value == int(value) for value in numbers)
            if whole and (max(numbers) > 10 or candidate not in ("length", "lengths")):
                return lowered[candidate]
    return None

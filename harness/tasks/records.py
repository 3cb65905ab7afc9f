"""Published files to examples: JSON, JSON lines or Parquet, under the column names that the publishers use.

Files come from outside: they are parsed as data only, and a row that does not fit is an error naming file and row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.rewards import tool_calling
from harness.rewards.boxes import last_box
from harness.tasks.prompts import Example, Message, maths_messages
from harness.tasks.references import reference_text

_PROBLEM = ("problem", "question")
_ANSWER = ("answer", "final_answer")
_IDENTIFIER = ("unique_id", "id", "idx")
_ROLES = ("system", "user")


def read_examples(path: Path, task: str, references: str) -> list[Example]:
    """All examples of a file, for ``task`` and ``references`` as in a :class:`harness.tasks.datasets.Dataset`.

    UserError names the file and the row: also for a tool-calling reference that can't be parsed.
    """
    examples = []
    for index, row in enumerate(_rows(path)):
        try:
            if not isinstance(row, Mapping):
                raise ValueError(f"a row is a {type(row).__name__}, not an object")
            examples.append(_maths(row, index, references) if task == "maths" else _tool_calling(row, index))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(
                f"{path}, row {index}: {error}; fetch the file again, or remove the row and its checksum"
            ) from error
    return examples


def _tool_calling(row: Mapping[str, Any], index: int) -> Example:
    reference = _reward_model(row)
    problem = tool_calling.reference_problem(reference)
    if problem is not None:
        raise ValueError(f"the reference answer can't be parsed: {problem}")
    return Example(_messages(row["prompt"]), reference, index)


def _maths(row: Mapping[str, Any], index: int, references: str) -> Example:
    if "prompt" in row and "reward_model" in row:
        messages = _messages(row["prompt"])
        if len(messages) != 1:
            raise ValueError(f"a maths prompt of {len(messages)} messages, not one user turn")
        return Example(maths_messages(messages[0]["content"]), _reference(_reward_model(row), references), index)
    problem = _first(row, _PROBLEM)
    if not isinstance(problem, str) or not problem.strip():
        raise ValueError(f"no problem text under {' or '.join(_PROBLEM)}")
    answer = _first(row, _ANSWER)
    if answer is None and isinstance(row.get("solution"), str):
        answer = last_box(row["solution"]).content
    if answer is None:
        raise ValueError(f"no answer under {' or '.join(_ANSWER)} and no box in the solution")
    identifier = _first(row, _IDENTIFIER)
    text = _reference(answer, references)
    return Example(maths_messages(problem), text, index, None if identifier is None else str(identifier))


def _reference(answer: Any, references: str) -> str:
    return answer if references == "published" and isinstance(answer, str) else reference_text(answer)


def _reward_model(row: Mapping[str, Any]) -> str:
    reference = row["reward_model"]["ground_truth"]
    if not isinstance(reference, str):
        raise ValueError(f"reward_model.ground_truth is a {type(reference).__name__}, not a text")
    return reference


def _messages(prompt: Any) -> tuple[Message, ...]:
    messages = tuple({"role": str(item["role"]), "content": item["content"]} for item in prompt)
    if not messages or messages[-1]["role"] != "user":
        raise ValueError("a prompt that does not end with a user turn")
    for message in messages:
        if message["role"] not in _ROLES or not isinstance(message["content"], str):
            raise ValueError(f"a prompt message of role {message['role']!r}")
    return messages


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _rows(path: Path) -> Iterator[Any]:
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet

            yield from pyarrow.parquet.read_table(path).to_pylist()
        elif path.suffix in (".jsonl", ".json"):
            yield from _json_rows(path)
        else:
            raise UserError(f"{path}: unknown kind of file; readable are .parquet, .jsonl and .json")
    except (ValueError, RecursionError, OSError) as error:
        raise UserError(f"{path} can't be read: {_one_line(error)}; fetch it again") from error


def _json_rows(path: Path) -> Iterator[Any]:
    """A JSON array, or one JSON value a line, whatever the suffix says."""
    text = path.read_text(encoding="utf-8")
    if text.lstrip().startswith("["):
        yield from json.loads(text)
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except ValueError as error:
                raise ValueError(f"line {number} is no JSON") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__

"""Stored outputs of a model: ``generations.jsonl``, a header line and then one line for each output, appended.

Killed at any moment, the file loses at most the line being written; a later process cuts the torn end off and goes on.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from harness.errors import UserError
from harness.evaluation.sampling import Generation, Key, Request
from harness.store.files import explained

SCHEMA = 1
NAME = "generations.jsonl"
_IDENTITY = ("benchmark", "model", "weights", "engine", "dtype", "extra", "sampling", "template_sha256", "prompts")
"""Keys of the header in which all outputs of a file must agree. Where others differ (a version, a batch), a further
header line says from which output on."""
_PLACE = "out=FOLDER (runs=FOLDER for a run)"


@dataclass(frozen=True)
class Stored:
    """An output and the hash of the prompt it answers. ``line``: where in the file."""

    generation: Generation
    prompt_sha256: str
    line: int = 0


@dataclass
class Content:
    """``damaged``: numbers of unreadable lines; ``repeated``: outputs that were stored more than once (the first
    counts); ``superseded``: outputs to another wording of a prompt, asked again since; ``torn``: bytes of an unfinished
    last line."""

    header: dict[str, Any] | None = None
    later_headers: list[dict[str, Any]] = field(default_factory=list)
    outputs: dict[Key, Stored] = field(default_factory=dict)
    damaged: list[int] = field(default_factory=list)
    repeated: int = 0
    superseded: int = 0
    torn: int = 0

    def answer(self, request: Request) -> Generation | None:
        """The stored output to this very prompt, or None."""
        stored = self.outputs.get(request.key)
        return stored.generation if stored and stored.prompt_sha256 == request.prompt_sha256 else None


def read(path: Path) -> Content:
    """Everything that can be read; a file that is not there is empty. UserError for another schema."""
    content = Content()
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    _take(content, path, number, line)
                else:
                    content.torn = len(line)
    except FileNotFoundError:
        return content
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); make it readable or move it away") from error
    if content.outputs and content.header is None:
        raise UserError(
            f"{path}: its first line, which says how the outputs were made, is damaged: move the file away, or put the "
            "line back"
        )
    return content


def _take(content: Content, path: Path, number: int, line: bytes) -> None:
    try:
        row = json.loads(line)
        if row.get("kind") == "header":
            if row["schema"] != SCHEMA:
                raise UserError(f"{path}: written by another version (schema {row['schema']}); move it away")
            if content.header is None:
                content.header = row
            else:
                content.later_headers.append(row)
            return
        key, stored = _output(row, number)
    except (ValueError, KeyError, TypeError, AttributeError):
        content.damaged.append(number)
        return
    known = content.outputs.get(key)
    if known is not None and known.prompt_sha256 == stored.prompt_sha256:
        content.repeated += 1
    else:
        content.superseded += known is not None
        content.outputs[key] = stored


def _output(row: Mapping[str, Any], line: int) -> tuple[Key, Stored]:
    key = (str(row["question"]), int(row["sample"]), int(row["turn"]), int(row["step"]))
    prompt_tokens = row["prompt_tokens"]
    generation = Generation(
        key,
        _text(row["text"]),
        int(row["tokens"]),
        None if prompt_tokens is None else int(prompt_tokens),
        _text(row["finish"]),
    )
    return key, Stored(generation, _text(row["prompt_sha256"]), line)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value


def stale(content: Content, prompts: Mapping[str, str], others: Collection[str] = ()) -> int:
    """Number of outputs to questions that are no longer asked, or were asked in other words. ``prompts``: hash of the
    (first) prompt of every question; ``others``: questions that do not count."""
    count = 0
    for question, sample, _, _ in content.outputs:
        if question in others:
            continue
        first = content.outputs.get((question, sample, 0, 0))
        count += question not in prompts or (first is not None and first.prompt_sha256 != prompts[question])
    return count


class Writer:
    """Appends outputs; one process at a time. UserError when the header of the file does not agree with ``header``."""

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        with explained(path, _PLACE):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: IO[bytes] = open(path, "ab", buffering=0)  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise UserError(f"{path}: another process is writing it; wait for it, or choose another out=") from error
        try:
            self.content = read(path)
            self._lines = max((stored.line for stored in self.content.outputs.values()), default=1)
            if self.content.torn:
                with explained(path, _PLACE):
                    os.ftruncate(self._file.fileno(), path.stat().st_size - self.content.torn)
            if self.content.header is None:
                self.content.header = {"kind": "header", "schema": SCHEMA, **header}
                self._append(self.content.header)
            else:
                _agree(path, self.content.header, header)
                wanted = {"kind": "header", "schema": SCHEMA, **header}
                if [self.content.header, *self.content.later_headers][-1] != json.loads(json.dumps(wanted)):
                    self._append(wanted)
                    self.content.later_headers.append(wanted)
        except BaseException:
            self._file.close()
            raise

    def add(self, request: Request, generation: Generation) -> None:
        question, sample, turn, step = generation.key
        self._append(
            {
                "question": question,
                "sample": sample,
                "turn": turn,
                "step": step,
                "prompt_sha256": request.prompt_sha256,
                "seed": request.seed,
                "text": generation.text,
                "tokens": generation.tokens,
                "prompt_tokens": generation.prompt_tokens,
                "finish": generation.finish,
            }
        )
        if generation.key in self.content.outputs:
            self.content.superseded += 1
        self._lines += 1
        self.content.outputs[generation.key] = Stored(generation, request.prompt_sha256, self._lines)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, row: Mapping[str, Any]) -> None:
        left = json.dumps(row).encode() + b"\n"
        with explained(self.path, _PLACE):
            while left:
                left = left[self._file.write(left) :]


def _agree(path: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for key in _IDENTITY:
        if stored.get(key) != wanted.get(key):
            raise UserError(
                f"{path} holds outputs made with {key}={json.dumps(stored.get(key))}, now it is "
                f"{json.dumps(wanted.get(key))}: give the same settings, another out=, or move the file away"
            )

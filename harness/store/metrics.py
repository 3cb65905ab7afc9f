"""The metrics log of a run: one JSON object a line and step, appended, never rewritten.

A line carries the attempt that wrote it. The last attempt wins: what an earlier attempt logged at or after the step at
which a later one started over is superseded. A last line cut short by a crash is tolerated and reported; the next
attempt sets it aside (in log.txt) and starts on a fresh line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UserError
from harness.store.files import explained
from harness.store.plain import dumps, number

SCHEMA = 1
_RESERVED = ("schema", "attempt", "step")
_TAIL_BYTES = 16384

Value = float | int | bool | None
Row = dict[str, Any]


@dataclass(frozen=True)
class Finding:
    """A line that cannot be read: ``line`` counts from 1."""

    path: Path
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.problem}"


@dataclass(frozen=True)
class MetricsLog:
    """What a log holds: ``rows`` (by step, the last attempt's), every readable line, and what could not be read.

    ``unfinished`` is the finding about the last line (a crash while writing); ``findings`` are lines before it.
    """

    rows: list[Row]
    lines: list[Row]
    findings: list[Finding]
    unfinished: Finding | None


class Metrics:
    """The log of one run. Opening it costs nothing; the file is made by the first :meth:`append`."""

    def __init__(
        self,
        path: Path,
        *,
        attempt: Callable[[], int],
        may_write: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """``attempt`` gives the current attempt; ``may_write`` raises when the run's lock is lost; ``report`` takes
        what was set aside on resuming."""
        self.path = path
        self._attempt = attempt
        self._may_write = may_write
        self._report = report
        self._file: int | None = None
        self._last: tuple[int, int] | None = None
        self._listeners: list[Callable[[Row], None]] = []

    def append(self, step: int, values: Mapping[str, Value]) -> None:
        """Write one step and have it on the disk when this returns.

        Within an attempt steps increase (ValueError otherwise). Raises UserError on a full disk; the file then ends
        after its last whole line.
        """
        for key in _RESERVED:
            if key in values:
                raise ValueError(f"metrics key {key!r} is reserved")
        attempt = self._attempt()
        if self._last is not None and self._last[0] == attempt and step <= self._last[1]:
            raise ValueError(f"step {step} follows step {self._last[1]} in attempt {attempt} of {self.path}")
        self._may_write()
        row: Row = {"schema": SCHEMA, "attempt": attempt, "step": int(step), **values}
        self._write((dumps(row) + "\n").encode())
        self._last = (attempt, int(step))
        for listener in self._listeners:
            listener(row)

    def subscribe(self, listener: Callable[[Row], None]) -> None:
        """Call ``listener`` with each row once it is stored."""
        self._listeners.append(listener)

    def rows(self) -> list[Row]:
        """One dict a step, in order of steps. Raises :class:`UserError` for a garbled line before the last one."""
        log = self.read()
        if log.findings:
            raise UserError(
                f"{log.findings[0]}; restore the file from a copy, or delete that line to do without its step"
            )
        return log.rows

    def last_step(self) -> int:
        """The step of the last whole line (0: none), read from the end of the file alone."""
        row = self.last_row()
        return 0 if row is None else int(row["step"])

    def last_row(self) -> Row | None:
        tail = self.tail(1)
        return tail[-1] if tail else None

    def tail(self, count: int) -> list[Row]:
        """The last ``count`` whole lines of the last attempt, reading no more of the file than needed."""
        size = _TAIL_BYTES
        while True:
            try:
                with open(self.path, "rb") as file:
                    end = file.seek(0, os.SEEK_END)
                    start = file.seek(max(0, end - size))
                    content = file.read()
            except FileNotFoundError:
                return []
            pieces = content.split(b"\n")
            rows = _last_rows(pieces[1 if start else 0 :], count)
            if start == 0 or len(rows) == count:
                last = rows[-1]["attempt"] if rows else 0
                return [row for row in rows if row["attempt"] == last]
            size *= 4

    def read(self) -> MetricsLog:
        """The whole log, with everything that is wrong with it."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        pieces = content.split(b"\n")
        if pieces[-1] == b"":
            pieces.pop()
        lines: list[Row] = []
        findings: list[Finding] = []
        for index, piece in enumerate(pieces, start=1):
            try:
                lines.append(_parse(piece))
            except ValueError as error:
                findings.append(Finding(self.path, index, str(error)))
        unfinished = None
        if findings and findings[-1].line == len(pieces):
            unfinished = findings.pop()
        return MetricsLog(rows=_last_attempt_wins(lines), lines=lines, findings=findings, unfinished=unfinished)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        with explained(self.path):
            if self._file is None:
                self._file = self._open()
            size = os.fstat(self._file).st_size
            try:
                written = 0
                while written < len(line):
                    written += os.write(self._file, line[written:])
                os.fdatasync(self._file) if hasattr(os, "fdatasync") else os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, size)
                raise

    def _open(self) -> int:
        """Open for appending, after a damaged last line was set aside."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        content = self.path.read_bytes()
        if content:
            body = content[:-1] if content.endswith(b"\n") else content
            start = body.rfind(b"\n") + 1
            last = body[start:]
            if _parse_or_none(last) is None:
                number_of_line = body.count(b"\n") + 1
                self._report(f"metrics.jsonl, line {number_of_line}: set aside a damaged last line: {last[:2000]!r}")
                os.ftruncate(file, start)
            elif not content.endswith(b"\n"):
                os.write(file, b"\n")
        return file


def _parse(piece: bytes) -> Row:
    """One line; ValueError says in words what is wrong with it."""
    try:
        row = orjson.loads(piece)
    except ValueError:
        row = _leniently(piece)
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is needed, found {type(row).__name__}")
    for key in _RESERVED:
        if not isinstance(row.get(key), int) or isinstance(row.get(key), bool):
            raise ValueError(f"key {key!r} is missing or no whole number")
    if row["schema"] != SCHEMA:
        raise ValueError(f"schema {row['schema']} is not known (this version writes {SCHEMA})")
    if b"NaN" in piece or b"Infinity" in piece:
        return {key: number(value) for key, value in row.items()}
    return row


def _leniently(piece: bytes) -> Any:
    """What only Python's own parser takes: bare NaN, and half of a surrogate pair."""
    try:
        return json.loads(piece)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no JSON object ({len(piece)} bytes beginning {piece[:40]!r})") from error


def _parse_or_none(piece: bytes) -> Row | None:
    try:
        return _parse(piece)
    except ValueError:
        return None


def _last_rows(pieces: list[bytes], count: int) -> list[Row]:
    """The last ``count`` readable lines, in their order."""
    rows: list[Row] = []
    for piece in reversed(pieces):
        row = _parse_or_none(piece)
        if row is not None:
            rows.append(row)
            if len(rows) == count:
                break
    return rows[::-1]


def _last_attempt_wins(lines: list[Row]) -> list[Row]:
    rows: list[Row] = []
    for row in lines:
        while rows and rows[-1]["step"] >= row["step"]:
            rows.pop()
        rows.append(row)
    return rows

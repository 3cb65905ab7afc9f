"""JSONL, one response a line: pieces of a file parsed in several processes, only the wanted keys kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from operator import itemgetter
from typing import Any

import numpy as np
import orjson

from harness.diagnose import sources
from harness.diagnose.cells import Notes, digests, is_label, reward_column, whole_column
from harness.diagnose.columns import Columns
from harness.diagnose.lines import line_blocks, read_ahead
from harness.diagnose.rows import Chunk
from harness.diagnose.sources import CutStream, Source
from harness.errors import UserError

Task = tuple[Callable[..., Chunk], Any, Any, Any, Any]

PIECE = 8 << 20
"""Bytes of a file that one task parses."""

_NO_JSON: Any = object()


def tasks(source: Source, columns: Columns) -> Iterator[Task]:
    """A file as calls, in its order, each of which parses a piece. Line numbers of a chunk begin at its piece."""
    if source.packed is None:
        size = source.path.stat().st_size
        with sources.open_bytes(source) as file:
            for start in range(0, size, PIECE):
                read_ahead(file, start, 2 * PIECE)
                yield _piece, source.name, start, min(start + PIECE, size), columns
        return
    rest = bytearray()
    begins, cut = True, False
    with sources.open_bytes(source) as stream:
        try:
            for block in sources.blocks(source, stream, PIECE):
                rest += block
                if len(rest) >= PIECE and b"\n" in block:
                    whole, end, rest = rest.rpartition(b"\n")
                    yield _parse, bytes(whole + end), columns, begins, False
                    begins = False
        except CutStream:
            cut = True
    yield _parse, bytes(rest), columns, begins, cut


def _piece(name: str, start: int, end: int, columns: Columns) -> Chunk:
    """The lines that begin in bytes ``start`` to ``end`` of a file."""
    cells = _Cells(columns, begins=start == 0)
    with open(name, "rb", buffering=0) as file:
        for buffer, first, stop in line_blocks(file, start, end):
            cells.take(buffer, first, stop)
    return cells.chunk()


def _parse(data: bytes, columns: Columns, begins: bool, cut: bool) -> Chunk:
    """The lines of ``data``. begins: a file begins here. cut: it ends here, but not of its own."""
    cells = _Cells(columns, begins)
    cells.take(data, 0, len(data))
    if cut:
        cells.notes.add("cut file", "", max(cells.read, 1))
    return cells.chunk()


class _Cells:
    """The wanted cells of some lines in a row. read: how many lines there were."""

    def __init__(self, columns: Columns, begins: bool) -> None:
        self.columns, self.begins = columns, begins
        self.optional = [n for n in (columns.step, columns.attempt, columns.length, columns.advantage) if n]
        self.names = (columns.group, *columns.channels, *self.optional)
        self.notes = Notes()
        self.read = 0
        self._lines: list[int] = []
        self._rows: list[tuple[Any, ...]] = []

    def take(self, buffer: bytes | bytearray, first: int, stop: int) -> None:
        """The lines in bytes ``first`` to ``stop``; only the file's last may lack its line end."""
        wanted, loads, find = itemgetter(*self.names), orjson.loads, buffer.find
        number = self.read
        with memoryview(buffer) as view:
            while first < stop:
                number += 1
                end = find(b"\n", first, stop)
                line = view[first : end if end >= 0 else stop]
                first = end + 1 if end >= 0 else stop
                try:
                    record = loads(line)
                except ValueError:
                    record = _again(bytes(line), self.begins and number == 1)
                    if record is _NO_JSON:
                        if bytes(line).strip():
                            self.notes.add("unreadable line" if end >= 0 else "cut last line", "", number)
                        continue
                if type(record) is not dict:
                    self.notes.add("unreadable line", "", number)
                    continue
                try:
                    row = wanted(record)
                except KeyError:
                    row = tuple(map(record.get, self.names))
                if type(row[0]) is not str and _has_float(row[0]):
                    label = _exact(bytes(line), self.columns.group)
                    row = (label, *row[1:])
                if not is_label(row[0]):
                    self.notes.add("no group", self.columns.group, number)
                    continue
                self._lines.append(number)
                self._rows.append(row)
        self.read = number

    def chunk(self) -> Chunk:
        labels, *values = map(list, zip(*self._rows, strict=True)) if self._rows else [[] for _ in self.names]
        rewards, rest = values[: len(self.columns.channels)], values[len(self.columns.channels) :]
        extras = dict(zip(self.optional, rest, strict=True))
        lines = np.array(self._lines, dtype=np.int64)
        return chunk_of(self.columns, labels, lines, rewards, extras, self.notes, self.read)


def chunk_of(
    columns: Columns,
    labels: list[Any],
    lines: Any,
    rewards: list[list[Any]],
    extras: dict[str, list[Any]],
    notes: Notes,
    read: int,
) -> Chunk:
    """Columns of cells to a chunk of numbers; a response whose step is no whole number is left out, and counted."""
    count = len(labels)
    matrix = np.empty((count, len(columns.channels)))
    for place, name in enumerate(columns.channels):
        matrix[:, place] = reward_column(rewards[place], name, lines, notes)
    steps = attempts = np.zeros(count, dtype=np.int64)
    valid = np.ones(count, dtype=bool)
    if columns.step and count:
        steps, valid = whole_column(extras[columns.step], columns.step, lines, notes)
    if columns.attempt and count:
        attempts, known = whole_column(extras[columns.attempt], columns.attempt, lines, notes)
        attempts = np.where(known, attempts, -1)
    optional = [
        reward_column(extras[name], name, lines, notes) if name else None
        for name in (columns.length, columns.advantage)
    ]
    chunk = Chunk(steps, attempts, digests(labels), matrix, optional[0], optional[1], lines, notes, read)
    if valid.all():
        return chunk
    chunk.steps, chunk.attempts, chunk.groups = steps[valid], attempts[valid], chunk.groups[valid]
    chunk.rewards, chunk.lines = matrix[valid], lines[valid]
    chunk.lengths, chunk.logged = (None if item is None else item[valid] for item in optional)
    return chunk


def _again(line: bytes, first: bool) -> Any:
    """A line that holds NaN or Infinity, as Python writes them, or a byte order mark; _NO_JSON where it is no JSON."""
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return _NO_JSON


def _has_float(label: Any) -> bool:
    if isinstance(label, dict):
        return any(map(_has_float, label.values()))
    return any(map(_has_float, label)) if isinstance(label, list) else isinstance(label, float)


def _exact(line: bytes, group: str) -> Any:
    """The label of a line, in which what looks like a float may be a whole number too long for the fast parser. None
    where the line is nested too deeply for the exact one."""
    record = _again(line, True)
    return record.get(group) if isinstance(record, dict) else None


def sample(source: Source, count: int) -> list[dict[str, Any]]:
    """The first ``count`` responses of a file and, where it is not packed, some of its last."""
    found: list[dict[str, Any]] = []
    with sources.open_bytes(source) as stream:
        data, reader = b"", sources.blocks(source, stream, 1 << 20)
        try:
            for block in reader:
                data += block
                if data.count(b"\n") > count or len(data) > (16 << 20):
                    break
        except CutStream:
            pass
        found += _records(data.split(b"\n")[:count])
        if source.packed is None and (size := source.path.stat().st_size) > 2 * len(data):
            stream.seek(max(size - (1 << 20), 0))
            found += _records(stream.read().split(b"\n")[1:][-count:])
    if not found and data.lstrip()[:1] == b"[":
        raise UserError(f"{source.path} is one JSON array; diagnose reads one object a line (JSONL): convert it")
    return found


def _records(lines: list[bytes]) -> list[dict[str, Any]]:
    records = (_again(line, True) for line in lines)
    return [record for record in records if isinstance(record, dict)]

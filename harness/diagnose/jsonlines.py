"""JSONL, one response a line: split at line ends, parsed in several processes, only the wanted keys kept."""

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
from harness.diagnose.rows import Chunk
from harness.diagnose.sources import CutStream, Source
from harness.errors import UserError

Task = tuple[Callable[..., Chunk], Any, Any, Any, Any]

PIECE = 8 << 20
"""Bytes of a file that one task parses."""


def tasks(source: Source, columns: Columns) -> Iterator[Task]:
    """A file as calls, in its order, each of which parses a piece. Line numbers of a chunk begin at its piece."""
    if source.packed is None:
        size = source.path.stat().st_size
        for start in range(0, size, PIECE):
            yield _piece, source.name, (start, min(start + PIECE, size)), columns, start + PIECE >= size
        return
    rest = bytearray()
    cut = False
    with sources.open_bytes(source) as stream:
        try:
            for block in sources.blocks(source, stream, PIECE):
                rest += block
                if len(rest) >= PIECE and b"\n" in block:
                    whole, end, rest = rest.rpartition(b"\n")
                    yield _parse, bytes(whole + end), columns, False, False
        except CutStream:
            cut = True
    yield _parse, bytes(rest), columns, True, cut


def _piece(name: str, span: tuple[int, int], columns: Columns, last: bool) -> Chunk:
    """The lines that begin in bytes ``span`` of a file."""
    start, end = span
    with open(name, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        if file.tell() >= end:
            return _parse(b"", columns, last, False)
        data = file.read(end - file.tell())
        if not data.endswith(b"\n"):
            data += file.readline()
        last = not file.read(1)
    return _parse(data, columns, last, False)


def _parse(data: bytes, columns: Columns, last: bool, cut: bool) -> Chunk:
    notes = Notes()
    lines = data.split(b"\n")
    ended = lines[-1] == b""
    if ended:
        lines.pop()
    optional = [name for name in (columns.step, columns.attempt, columns.length, columns.advantage) if name]
    names = (columns.group, *columns.channels, *optional)
    wanted = itemgetter(*names)
    numbers: list[int] = []
    cells: list[tuple[Any, ...]] = []
    for number, line in enumerate(lines, 1):
        try:
            record = orjson.loads(line)
        except ValueError:
            record = _again(line, number == 1)
            if record is None:
                if line.strip():
                    unfinished = last and not ended and number == len(lines)
                    notes.add("cut last line" if unfinished else "unreadable line", "", number)
                continue
        if type(record) is not dict:
            notes.add("unreadable line", "", number)
            continue
        try:
            row = wanted(record)
        except KeyError:
            row = tuple(map(record.get, names))
        if type(row[0]) is float:
            row = (_exact(line, columns.group), *row[1:])
        if not is_label(row[0]):
            notes.add("no group", columns.group, number)
            continue
        numbers.append(number)
        cells.append(row)
    if cut:
        notes.add("cut file", "", max(len(lines), 1))
    labels, *values = map(list, zip(*cells, strict=True)) if cells else [[] for _ in names]
    rewards, rest = values[: len(columns.channels)], values[len(columns.channels) :]
    extras = dict(zip(optional, rest, strict=True))
    return chunk_of(columns, labels, np.array(numbers, dtype=np.int64), rewards, extras, notes, len(lines))


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
    """A line that holds NaN or Infinity, as Python writes them, or a byte order mark; None where it is no JSON."""
    try:
        return json.loads(line.decode("utf-8-sig" if first else "utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None


def _exact(line: bytes, group: str) -> Any:
    """A label that looks like a float may be a whole number too long for the fast parser."""
    return json.loads(line.decode("utf-8-sig", "surrogateescape")).get(group)


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

"""CSV and TSV: every cell is text, so that the group labels "01" and "1" stay different."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from harness.diagnose import sources
from harness.diagnose.cells import Notes, is_label
from harness.diagnose.columns import Columns
from harness.diagnose.jsonlines import chunk_of
from harness.diagnose.rows import Chunk
from harness.diagnose.sources import CutStream, Source
from harness.errors import UserError

ROWS = 20_000
LONGEST_CELL = 1 << 28


class _Blocks(io.RawIOBase):
    """Unpacked bytes as a file for the text layer. Remembers whether they were cut, and their last byte."""

    def __init__(self, source: Source, stream: Any) -> None:
        self._blocks = sources.blocks(source, stream)
        self._left = b""
        self.cut = False
        self.last = b"\n"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            try:
                self._left = next(self._blocks, b"")
            except CutStream:
                self.cut = True
        part = self._left[: len(buffer)]
        self._left = self._left[len(part) :]
        buffer[: len(part)] = part
        self.last = part[-1:] or self.last
        return len(part)


def read(source: Source, columns: Columns) -> Iterator[Chunk]:
    """The responses of a file, in its order; lines counts lines of text, also those inside a quoted cell."""
    previous = csv.field_size_limit(LONGEST_CELL)
    try:
        with sources.open_bytes(source) as stream:
            raw = _Blocks(source, stream)
            text = io.TextIOWrapper(
                io.BufferedReader(raw, 1 << 20), encoding="utf-8-sig", errors="surrogateescape", newline=""
            )
            yield from _chunks(source, columns, text, raw)
    finally:
        csv.field_size_limit(previous)


def _chunks(source: Source, columns: Columns, text: io.TextIOWrapper, raw: _Blocks) -> Iterator[Chunk]:
    reader, header = _open(source, text)
    absent = [name for name in (columns.group, columns.step) if name and name not in header]
    if absent:
        raise UserError(f"{source.path} has no column {absent[0]}, which the other files have; diagnose it apart")
    places = {name: header.index(name) for name in columns.wanted() if name in header}
    rows: list[tuple[int, list[str]]] = []
    notes = Notes()
    pending: tuple[int, list[str]] | None = None
    try:
        for row in reader:
            if not row:
                continue
            if pending is not None:
                _take(pending, header, rows, notes)
            pending = (reader.line_num, row)
            if len(rows) >= ROWS:
                yield _chunk(columns, places, rows, notes)
                rows, notes = [], Notes()
    except csv.Error as error:
        raise UserError(f"{source.path} line {reader.line_num}: {error}; mend or leave out this line") from error
    if pending is not None:
        if len(pending[1]) != len(header):
            notes.add("cut last line", "", pending[0])
        else:
            rows.append(pending)
            if raw.last != b"\n":
                notes.add("no line end", "", pending[0])
    if raw.cut:
        notes.add("cut file", "", reader.line_num)
    yield _chunk(columns, places, rows, notes)


def _open(source: Source, text: Any) -> tuple[Any, list[str]]:
    first = text.readline()
    if source.path.name.lower().split(".")[-1 - bool(source.packed)] == "tsv":
        delimiter = "\t"
    else:
        delimiter = max((",", ";", "\t"), key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if not any(header):
        raise UserError(f"{source.path} is empty: its first line must name the columns")
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"{source.path} names column {name!r} twice; rename one of them")
    reader = csv.reader(text, delimiter=delimiter)
    return reader, header


def _take(pending: tuple[int, list[str]], header: list[str], rows: list[tuple[int, list[str]]], notes: Notes) -> None:
    if len(pending[1]) == len(header):
        rows.append(pending)
    else:
        notes.add("unreadable line", "", pending[0] + 1)


def _chunk(columns: Columns, places: dict[str, int], rows: list[tuple[int, list[str]]], notes: Notes) -> Chunk:
    place = places[columns.group]
    kept = []
    for line, row in rows:
        if is_label(row[place]):
            kept.append((line, row))
        else:
            notes.add("no group", columns.group, line + 1)

    def cells(name: str) -> list[Any]:
        return [row[places[name]] for _, row in kept] if name in places else [None] * len(kept)

    extras = {n: cells(n) for n in (columns.step, columns.attempt, columns.length, columns.advantage) if n}
    lines = np.array([line + 1 for line, _ in kept], dtype=np.int64)
    rewards = [cells(name) for name in columns.channels]
    return chunk_of(columns, cells(columns.group), lines, rewards, extras, notes, len(rows))


def sample(source: Source, count: int) -> list[dict[str, Any]]:
    previous = csv.field_size_limit(LONGEST_CELL)
    found: list[dict[str, Any]] = []
    try:
        with sources.open_bytes(source) as stream:
            raw = io.BufferedReader(_Blocks(source, stream), 1 << 20)
            text = io.TextIOWrapper(raw, encoding="utf-8-sig", errors="surrogateescape", newline="")
            reader, header = _open(source, text)
            for row in reader:
                if len(row) == len(header):
                    found.append(dict(zip(header, row, strict=True)))
                if len(found) >= count:
                    break
    except csv.Error as error:
        raise UserError(f"{source.path} is no CSV: {error}") from error
    finally:
        csv.field_size_limit(previous)
    return found

"""Files to one :class:`Log`: what was taken for what, all responses as numbers, and what was odd, counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.diagnose import csvfile, jsonlines
from harness.diagnose.cells import Notes
from harness.diagnose.columns import Choice, Columns, find_columns
from harness.diagnose.pool import WORKERS, pool_of
from harness.diagnose.progress import progress
from harness.diagnose.rows import Chunk, Rows, join, settle_attempts
from harness.diagnose.sources import Source, find_sources
from harness.errors import UserError

SAMPLE = 500
"""Rows of a file that are looked at to find the columns; fewer of each where there are many files."""

_PARALLEL_FROM = 32 << 20
_SAID = {
    "cut last line": "the last line is cut (still being written?): left out",
    "cut file": "the packed file stops in the middle: what came before is read",
    "no line end": "the last line has no line end: if the file is still being written, its last cell may be cut",
    "unreadable line": "{n} that cannot be read: left out",
    "no group": "{n} without a group in column {column}: left out",
    "not a number": "{n} whose {column} is not a number: missing there",
    "infinite": "{n} whose {column} is infinite: missing there",
}


@dataclass(frozen=True)
class Log:
    """rows: the responses that count, those of a step side by side, steps in order. warnings: what was odd, in words.
    has_steps: False where the whole log is one batch, its step 0. numbers: (lowest, highest) reward of each channel."""

    rows: Rows
    columns: Columns
    sources: Sequence[Source]
    warnings: Sequence[str]
    has_steps: bool
    numbers: dict[str, tuple[float, float]]


def read_log(paths: Sequence[Path], choice: Choice, duplicates: str = "auto") -> Log:
    """Read all files. UserError: no file, no group column, no rewards, nothing left after what could not be read."""
    found = find_sources(paths)
    each = max(20, SAMPLE // len(found))
    sample = [row for source in found for row in _reader(source.kind).sample(source, each)]
    if not sample:
        names = ", ".join(source.name for source in found)
        raise UserError(f"{names}: no row could be read; diagnose needs JSONL, CSV or parquet with one response a row")
    columns = find_columns(sample, choice, all(source.kind == "csv" for source in found))
    del sample
    from_name = columns.step is None and all(source.step is not None for source in found)
    chunks: list[Chunk] = []
    warnings: list[str] = []
    bytes_there = sum(source.path.stat().st_size for source in found)
    with progress("reading", bytes_there) as done:
        for file, chunk, size in _chunks(found, columns):
            chunk.file = file
            if from_name:
                chunk.steps = np.full(len(chunk.steps), found[file].step or 0, dtype=np.int64)
            chunks.append(chunk)
            done(size)
    warnings += _noted(chunks, found)
    if not any(len(chunk.steps) for chunk in chunks):
        raise UserError(f"no response could be read from {found[0].path}: " + ("; ".join(warnings) or "it is empty"))
    rows = join(chunks)
    del chunks
    rows, told = settle_attempts(rows, duplicates, columns.attempt is not None)
    warnings += told
    warnings += _lengths(rows, columns)
    numbers = {}
    for place, name in enumerate(columns.channels):
        present = rows.rewards[:, place][~np.isnan(rows.rewards[:, place])]
        if not len(present):
            raise UserError(f"column {name} holds no number at all; choose the reward columns with --channels")
        numbers[name] = float(present.min()), float(present.max())
        if len(present) < len(rows):
            warnings.append(f"channel {name}: {len(rows) - len(present):,} of {len(rows):,} rewards are missing")
    if (np.diff(rows.steps) < 0).any():
        rows = rows.take(np.argsort(rows.steps, kind="stable"))
    if columns.by_prompt:
        warnings.append(
            f"groups are told apart by the prompt (column {columns.group}): a prompt that a step has twice is one group"
        )
    if columns.step is None and not from_name:
        warnings.append("no column holds the step: the whole log is read as one batch; name the column with --step")
    return Log(rows, columns, found, warnings, columns.step is not None or from_name, numbers)


def _reader(kind: str) -> Any:
    if kind == "parquet":
        from harness.diagnose import parquet

        return parquet
    return csvfile if kind == "csv" else jsonlines


def _chunks(found: Sequence[Source], columns: Columns) -> Iterator[tuple[int, Chunk, int]]:
    """(number of the file, chunk, bytes of the file that are done with it), files in order."""
    total = sum(source.path.stat().st_size for source in found if source.kind == "jsonl")
    with pool_of(WORKERS) if total >= _PARALLEL_FROM and WORKERS > 1 else nullcontext() as pool:
        waiting: list[tuple[int, Future[Chunk]]] = []
        numbering: dict[int, int] = defaultdict(int)

        def numbered(file: int, chunk: Chunk) -> tuple[int, Chunk, int]:
            before = numbering[file]
            chunk.lines += before
            chunk.notes.first = {key: line + before for key, line in chunk.notes.first.items()}
            numbering[file] += chunk.read
            return file, chunk, jsonlines.PIECE if found[file].packed is None else 0

        for file, source in enumerate(found):
            if source.kind != "jsonl":
                for chunk in _reader(source.kind).read(source, columns):
                    yield file, chunk, 0
                continue
            for call in jsonlines.tasks(source, columns):
                if pool is None:
                    yield numbered(file, call[0](*call[1:]))
                    continue
                waiting.append((file, pool.submit(call[0], *call[1:])))
                if len(waiting) > 2 * WORKERS:
                    first, future = waiting.pop(0)
                    yield numbered(first, future.result())
        for file, future in waiting:
            yield numbered(file, future.result())


def _noted(chunks: Sequence[Chunk], found: Sequence[Source]) -> list[str]:
    """What the readers could not take, per kind and column: how often, and where first."""
    total = Notes()
    where: dict[tuple[str, str], str] = {}
    for chunk in chunks:
        for key, count in chunk.notes.counts.items():
            total.add(*key, 0, count)
            where.setdefault(key, f"{found[chunk.file].path} line {chunk.notes.first[key]}")
    lines = []
    for (kind, column), count in total.counts.items():
        rows = f"{count:,} response" + ("s" if count > 1 else "")
        form = _SAID.get(kind, "{n} with " + kind + " in column {column}: left out")
        lines.append(f"{form.format(n=rows, column=column)} (first: {where[kind, column]})")
    return lines


def _lengths(rows: Rows, columns: Columns) -> list[str]:
    """Give up on lengths that are no token counts."""
    if rows.lengths is None:
        return []
    with np.errstate(invalid="ignore"):
        wrong = ~((rows.lengths >= 0) & (rows.lengths == np.floor(rows.lengths)))
    if not wrong.any():
        return []
    rows.lengths = None
    return [f"column {columns.length} holds no token count in {int(wrong.sum()):,} places: lengths are not used"]

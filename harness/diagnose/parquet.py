"""Parquet: only the wanted columns, a few thousand rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.diagnose.cells import Notes, bounded, digests, is_label, reward_column, whole_column
from harness.diagnose.columns import Columns
from harness.diagnose.rows import Chunk
from harness.diagnose.sources import Source
from harness.errors import UserError

ROWS = 8192


@contextmanager
def _opened(source: Source) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(source.path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{source.path} is no whole parquet file ({reason}); is it still being written?") from error


def read(source: Source, columns: Columns) -> Iterator[Chunk]:
    """The responses of a file, in its order; lines counts rows from 1."""
    with _opened(source) as file:
        names = set(file.schema_arrow.names)
        for name in (columns.group, columns.step):
            if name and name not in names:
                raise UserError(f"{source.path} has no column {name}, which the other files have; diagnose it apart")
        wanted = [name for name in columns.wanted() if name in names]
        row = 0
        for batch in file.iter_batches(batch_size=ROWS, columns=wanted, use_threads=False):
            yield _chunk(batch, columns, row)
            row += batch.num_rows


def _chunk(batch: Any, columns: Columns, before: int) -> Chunk:
    notes = Notes()
    lines = np.arange(before + 1, before + 1 + batch.num_rows, dtype=np.int64)
    labels = batch.column(columns.group).to_pylist()
    keep = np.fromiter(map(is_label, labels), dtype=bool, count=len(labels))
    if not keep.all():
        notes.add("no group", columns.group, int(lines[int(np.argmin(keep))]), int((~keep).sum()))
    rewards = np.stack([_numbers(batch, name, lines, notes) for name in columns.channels], axis=1)
    lengths, logged = (
        _numbers(batch, name, lines, notes) if name else None for name in (columns.length, columns.advantage)
    )
    zeros = np.zeros(len(lines), dtype=np.int64)
    steps, attempts = zeros, zeros
    if columns.step:
        steps, valid = whole_column(batch.column(columns.step).to_pylist(), columns.step, lines.tolist(), notes)
        keep = keep & valid
    if columns.attempt in batch.schema.names:
        cells = batch.column(columns.attempt).to_pylist()
        attempts, known = whole_column(cells, str(columns.attempt), lines.tolist(), notes)
        attempts = np.where(known, attempts, -1)
    kept = np.flatnonzero(keep)
    return Chunk(
        steps[kept],
        attempts[kept],
        digests([labels[place] for place in kept.tolist()]),
        rewards[kept],
        None if lengths is None else lengths[kept],
        None if logged is None else logged[kept],
        lines[kept],
        notes,
        batch.num_rows,
    )


def _numbers(batch: Any, name: str, lines: Any, notes: Notes) -> Any:
    if name not in batch.schema.names:
        return np.full(batch.num_rows, np.nan)
    column = batch.column(name)
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return bounded(np.asarray(values, dtype=np.float64), name, lines, notes)
    return reward_column(column.to_pylist(), name, lines, notes)


def sample(source: Source, count: int) -> list[dict[str, Any]]:
    """The first rows; cells of text are cut from the sample's memory as soon as it is used."""
    with _opened(source) as file:
        for batch in file.iter_batches(batch_size=count, use_threads=False):
            return list(batch.to_pylist())
    return []

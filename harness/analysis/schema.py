"""The tables between the run store and everything that is reported: columns, types, version, bytes.

index      one row a run (or published summary): what it is, in which state, why it may be left out
metrics    tidy: run_id, source, attempt, step, metric, value
evals      tidy: run_id, source, benchmark, step, metric, value, n
questions  tidy: the same by question, value the mean over its samples; part: the benchmark or category it belongs to
findings   what could not be read, or does not fit together

Shares (rewards in [0, 1], accuracies, format compliance) are fractions everywhere, the published ones included.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import UserError
from harness.store.files import make_folder, write_atomically

SCHEMA: Final = 1
_VERSION_KEY: Final = b"dara_harness_results_schema"
_text, _count, _number = pa.string(), pa.int64(), pa.float64()

COLUMNS: Final[dict[str, pa.Schema]] = {
    "index": pa.schema(
        [
            ("run_id", _text),
            ("source", _text),  # ours | published
            ("kind", _text),  # run, or a summary of runs: mean, median, q25, q75
            ("study", _text),
            ("scale", _text),
            ("task", _text),
            ("model", _text),
            ("method", _text),
            ("parameters", _text),
            ("group_size", _count),
            ("seed", _count),
            ("engine", _text),
            ("family_id", _text),  # equal for runs that differ in seed, method and group size alone
            ("setting_id", _text),  # equal for runs that differ in seed and method alone
            ("cell_id", _text),  # equal for runs that differ in seed alone
            ("responses_per_step", _count),
            ("steps", _count),
            ("last_step", _count),
            ("state", _text),
            ("reason", _text),
            ("attempts", _count),
            ("n_runs", _count),
            ("cohort", _text),
            ("published_exclusion", _text),
            ("origin", _text),
        ]
    ),
    "metrics": pa.schema(
        [
            ("run_id", _text),
            ("source", _text),
            ("attempt", _count),
            ("step", _count),
            ("metric", _text),
            ("value", _number),
        ]
    ),
    "evals": pa.schema(
        [
            ("run_id", _text),
            ("source", _text),
            ("benchmark", _text),
            ("step", _count),
            ("metric", _text),
            ("value", _number),
            ("n", _count),
        ]
    ),
    "questions": pa.schema(
        [
            ("run_id", _text),
            ("source", _text),
            ("benchmark", _text),
            ("step", _count),
            ("part", _text),
            ("question", _text),
            ("metric", _text),
            ("value", _number),
            ("samples", _count),
        ]
    ),
    "findings": pa.schema([("run_id", _text), ("source", _text), ("kind", _text), ("detail", _text)]),
}
ORDER: Final = {
    "index": ["source", "run_id"],
    "metrics": ["source", "run_id", "metric", "step"],
    "evals": ["source", "run_id", "benchmark", "step", "metric"],
    "questions": ["source", "run_id", "benchmark", "step", "metric", "part", "question"],
    "findings": ["source", "run_id", "kind", "detail"],
}


def frame(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with exactly the columns of table ``name``, typed (Int64 for counts) and in the table's order.

    Columns absent from ``rows`` become missing values; unknown columns raise ValueError.
    """
    schema = COLUMNS[name]
    unknown = sorted(set(rows.columns) - set(schema.names))
    if unknown:
        raise ValueError(f"table {name} has no columns {unknown}")
    columns = {}
    for field in schema:
        column = rows[field.name] if field.name in rows else pd.Series([None] * len(rows), index=rows.index)
        if field.type == _text:
            columns[field.name] = _text_column(column)
        else:
            columns[field.name] = column.astype("Int64" if field.type == _count else "float64")
    typed = pd.DataFrame(columns)
    order = _order(typed, ORDER[name])
    return typed.reset_index(drop=True) if order is None else typed.iloc[order].reset_index(drop=True)


def _order(typed: pd.DataFrame, keys: list[str]) -> np.ndarray | None:
    """Rows in the order of ``keys``, missing values first, equal rows as they were; None where they are so already."""
    ranks = []
    for key in keys:
        codes, distinct = pd.factorize(typed[key], use_na_sentinel=True)
        rank = np.empty(len(distinct) + 1, dtype=np.int64)
        rank[np.argsort(np.asarray(distinct), kind="stable")] = np.arange(len(distinct))
        rank[-1] = -1
        ranks.append(rank[codes])
    undecided = np.ones(max(len(typed) - 1, 0), dtype=bool)
    for rank in ranks:
        step = np.diff(rank)
        if (step[undecided] < 0).any():
            return np.lexsort(ranks[::-1])
        undecided &= step == 0
    return None


def _text_column(column: pd.Series) -> pd.Series:
    """Python strings and None: for a few thousand rows far quicker to filter than an extension type."""
    if column.dtype != object:
        column = column.astype(object)
    missing = column.isna()
    return column.where(~missing, None) if missing.any() else column


def write_table(folder: Path, name: str, rows: pd.DataFrame) -> Path:
    """Store ``rows`` as ``<folder>/<name>.parquet``; equal rows in any order give equal bytes."""
    schema = COLUMNS[name].with_metadata({_VERSION_KEY: str(SCHEMA).encode()})
    table = pa.Table.from_pandas(frame(name, rows), schema=schema, preserve_index=False).replace_schema_metadata(
        schema.metadata
    )
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=True, write_statistics=True)
    make_folder(folder)
    path = folder / f"{name}.parquet"
    write_atomically(path, buffer.getvalue())
    return path


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """Raises :class:`UserError` when the file is absent, damaged, or of another version."""
    path = folder / f"{name}.parquet"
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist; make it with `python -m harness collect`") from error
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read ({error}); make it again with `python -m harness collect`") from error
    version = (table.schema.metadata or {}).get(_VERSION_KEY, b"?").decode()
    if version != str(SCHEMA) or table.schema.names != COLUMNS[name].names:
        raise UserError(
            f"{path}: written by another version (schema {version}, this one reads {SCHEMA}); "
            "make it again with `python -m harness collect`"
        )
    return frame(name, table.to_pandas())

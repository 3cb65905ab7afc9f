"""Per-question results of an evaluation (``evals/<benchmark>/<step>.parquet``) in tidy form.

A row of the file is a sample or a case: ``question``, numbers, and what the question belongs to: ``benchmark`` (one of
several under one name) or ``category``. The samples of a question are averaged, as all statistics want them.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = ("benchmark", "step", "part", "question", "metric", "value", "samples")
_PARTS = ("category", "benchmark")
_NO_METRICS = ("question", "sample", *_PARTS)


class QuestionsUnreadable(ValueError):
    """The message says what is wrong with the file."""


def per_question(result: Path, benchmark: str, step: int) -> pd.DataFrame | None:
    """The table beside a result file, with :data:`COLUMNS`; None where there is none.

    Every column of numbers or of true and false is a metric, ``failure_x`` is named ``failure/x``. Raises
    :class:`QuestionsUnreadable`.
    """
    try:
        table = pq.read_table(result.with_suffix(".parquet")).to_pandas()
    except FileNotFoundError:
        return None
    except (OSError, pa.ArrowException) as error:
        raise QuestionsUnreadable(" ".join(str(error).split())) from error
    if "question" not in table:
        raise QuestionsUnreadable(f"no column question; columns: {', '.join(map(str, table.columns))}")
    part = next((name for name in _PARTS if name in table), None)
    parts = table[part].astype(str) if part else pd.Series("", index=table.index)
    numbers = table.drop(columns=[name for name in _NO_METRICS if name in table]).select_dtypes(["number", "bool"])
    if numbers.columns.empty or table.empty:
        return pd.DataFrame(columns=list(COLUMNS))
    keys = [parts.rename("part"), table["question"].astype(str).rename("question")]
    by_question = numbers.astype("float64").groupby(keys, sort=True)
    means, samples = by_question.mean(), by_question.size()
    means.columns = [str(name).replace("failure_", "failure/", 1) for name in means.columns]
    tidy = means.melt(ignore_index=False, var_name="metric").join(samples.rename("samples")).reset_index()
    return tidy.assign(benchmark=benchmark, step=step)[list(COLUMNS)]

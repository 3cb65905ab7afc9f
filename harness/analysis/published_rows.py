"""Rows of published runs, collected from the files of paper_tables/reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from harness.analysis.results import Results

GROUPS = {"live": "live", "non_live": "non_live", "multi_turn": "multi_turn", "average": "average"}


class Builder:
    """Collects rows; a run may be named by several files, the first to name it describes it."""

    def __init__(self) -> None:
        self.index: dict[str, dict[str, Any]] = {}
        self.metrics: list[tuple[str, int | None, str, float | None]] = []
        self.evals: list[tuple[str, str, int | None, str, float, int | None]] = []

    def run(self, name: str, **facts: Any) -> str:
        run_id = f"published:{name}"
        row = self.index.setdefault(
            run_id, {"run_id": run_id, "source": "published", "kind": "run", "scale": "paper", "cohort": ""}
        )
        for key, value in facts.items():
            if row.get(key) in (None, "") and not _absent(value):
                row[key] = value
        return run_id

    def join_cohort(self, run_id: str, cohort: str) -> None:
        row = self.index[run_id]
        row["cohort"] = ",".join(sorted({part for part in [*row["cohort"].split(","), cohort] if part}))

    def metric(self, run_id: str, step: Any, metric: str, value: Any) -> None:
        self.metrics.append((run_id, _whole(step), metric, as_float(value)))

    def evaluation(self, run_id: str, benchmark: str, step: Any, metric: str, value: Any, n: int | None = None) -> None:
        number = as_float(value)
        if number is not None:
            self.evals.append((run_id, benchmark, _whole(step), metric, number, n))

    def results(self) -> Results:
        index = pd.DataFrame(self.index.values())
        index["family_id"] = _joined(index, ["task", "model", "study"])
        index["setting_id"] = _joined(index, ["task", "model", "group_size", "study"])
        index["cell_id"] = _joined(index, ["task", "model", "group_size", "study", "method", "kind"])
        metrics = pd.DataFrame(self.metrics, columns=["run_id", "step", "metric", "value"]).drop_duplicates()
        evals = pd.DataFrame(self.evals, columns=["run_id", "benchmark", "step", "metric", "value", "n"])
        evals = evals.drop_duplicates()
        for table in (metrics, evals):
            table["source"] = "published"
        return Results.of(index, metrics, evals)


def read_csv(folder: Path, name: str) -> list[dict[str, Any]]:
    table = pd.read_csv(folder / name).astype(object)
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def bfcl(builder: Builder, run_id: str, step: Any, row: dict[str, Any], prefix: str, suffix: str) -> None:
    """BFCL-v4 columns of one row: percent to fractions."""
    for group in GROUPS:
        for quantity in ("accuracy", "format"):
            value = as_float(row.get(f"{prefix}{group}_{quantity}{suffix}"))
            if value is not None:
                builder.evaluation(run_id, "bfcl_v4", step, f"{quantity}/{group}", value / 100, 3301)


def _absent(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and value != value)


def as_float(value: Any) -> float | None:
    return None if _absent(value) else float(value)


def _whole(value: Any) -> int | None:
    return None if _absent(value) else int(value)


def _joined(index: pd.DataFrame, columns: list[str]) -> pd.Series:
    rows = zip(*(index[column] for column in columns), strict=True)
    return pd.Series(["|".join(["published", *map(_written, row)]) for row in rows], index=index.index, dtype=object)


def _written(value: Any) -> str:
    return "" if _absent(value) else value if isinstance(value, str) else f"{value:g}"

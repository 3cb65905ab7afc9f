"""What is collected of all runs, as arrays until the end: a table of a million values is made at once, not by rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.results import Results

_NUMBERS = frozenset({int, float, bool})


class RunTables:
    """Rows of the result tables of one source. Runs are added by name, so that the tables come out in their order."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.index: list[dict[str, Any]] = []
        self.evals: list[tuple[str, str, int, str, float, int | None]] = []
        self.findings: list[tuple[str, str, str]] = []
        self._metrics: list[tuple[str, str, np.ndarray, np.ndarray, np.ndarray]] = []
        self._questions: list[pd.DataFrame] = []

    def finding(self, run_id: str, kind: str, detail: str) -> None:
        self.findings.append((run_id, kind, detail))

    def add_metrics(
        self, run_id: str, rows: Sequence[Mapping[str, Any]], reserved: Sequence[str]
    ) -> dict[str, list[int]]:
        """All numbers of a run's log, ``rows`` by step. Returns metric -> steps at which it was no finite number: text
        is left out there, infinity becomes NaN. None is a metric that was not logged."""
        strange: dict[str, list[int]] = {}
        names = {key for keys in {tuple(row) for row in rows} for key in keys}.difference(reserved)
        steps = np.array([row["step"] for row in rows], dtype=np.int64)
        attempts = np.array([row["attempt"] for row in rows], dtype=np.int64)
        for name in sorted(names):
            cells = [row.get(name) for row in rows]
            kinds = set(map(type, cells))
            there: Any = slice(None)
            if not kinds <= _NUMBERS:
                there = np.array([type(cell) in _NUMBERS for cell in cells])
                wrong = [
                    step
                    for step, cell in zip(steps.tolist(), cells, strict=True)
                    if cell is not None and type(cell) not in _NUMBERS
                ]
                if wrong:
                    strange[name] = wrong
                cells = [cell for cell in cells if type(cell) in _NUMBERS]
                if not cells:
                    continue
            values = _finite(cells)
            lost = np.isnan(values)
            if lost.any():
                strange[name] = sorted({*strange.get(name, ()), *steps[there][lost].tolist()})
            self._metrics.append((run_id, name, steps[there], attempts[there], values))
        return strange

    def add_questions(self, run_id: str, table: pd.DataFrame) -> None:
        """``table``: benchmark, step, part, question, metric, value, samples."""
        self._questions.append(table.assign(run_id=run_id))

    def results(self) -> Results:
        metrics = self._metric_table()
        evals = pd.DataFrame(self.evals, columns=["run_id", "benchmark", "step", "metric", "value", "n"])
        findings = pd.DataFrame(self.findings, columns=["run_id", "kind", "detail"])
        questions = pd.concat(self._questions) if self._questions else pd.DataFrame({"run_id": []})
        for table in (metrics, evals, findings, questions):
            table["source"] = self.source
        return Results.of(pd.DataFrame(self.index), metrics, evals, findings, questions)

    def _metric_table(self) -> pd.DataFrame:
        if not self._metrics:
            return pd.DataFrame({"run_id": []})
        run_ids, names, steps, attempts, values = zip(*self._metrics, strict=True)
        counts = [len(part) for part in values]
        return pd.DataFrame(
            {
                "run_id": np.repeat(np.array(run_ids, dtype=object), counts),
                "attempt": np.concatenate(attempts),
                "step": np.concatenate(steps),
                "metric": np.repeat(np.array(names, dtype=object), counts),
                "value": np.concatenate(values),
            }
        )


def _finite(cells: Sequence[Any]) -> np.ndarray:
    """Numbers as float64, NaN for what is not finite."""
    try:
        values = np.array(cells, dtype=np.float64)
    except OverflowError:  # a whole number beyond float64
        values = np.array([float(cell) if abs(cell) < 1e300 else math.inf for cell in cells], dtype=np.float64)
    values[~np.isfinite(values)] = np.nan
    return values

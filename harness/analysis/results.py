"""The collected tables in memory: what tables and figures start from."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from harness.analysis.schema import frame, read_table
from harness.errors import UserError, nearest

FILTERS = ("source", "kind", "study", "scale", "task", "model", "method", "group_size", "seed", "engine", "cohort")


@dataclass(frozen=True)
class Results:
    """``index``, ``metrics``, ``evals``, ``questions`` and ``findings``: see :mod:`harness.analysis.schema`.

    ``folder`` is where they were read from, None when they were built in memory. ``questions``, by far the largest,
    is read when it is first asked for.
    """

    index: pd.DataFrame
    metrics: pd.DataFrame
    evals: pd.DataFrame
    findings: pd.DataFrame
    folder: Path | None = None
    given_questions: pd.DataFrame | None = None

    @staticmethod
    def of(
        index: pd.DataFrame,
        metrics: pd.DataFrame | None = None,
        evals: pd.DataFrame | None = None,
        findings: pd.DataFrame | None = None,
        questions: pd.DataFrame | None = None,
    ) -> Results:
        """Tables typed and sorted from frames with at least the columns in use."""
        empty = pd.DataFrame()
        return Results(
            frame("index", index),
            frame("metrics", empty if metrics is None else metrics),
            frame("evals", empty if evals is None else evals),
            frame("findings", empty if findings is None else findings),
            given_questions=frame("questions", empty if questions is None else questions),
        )

    @functools.cached_property
    def questions(self) -> pd.DataFrame:
        if self.given_questions is not None:
            return self.given_questions
        return frame("questions", pd.DataFrame()) if self.folder is None else read_table(self.folder, "questions")

    def runs(self, **wanted: object) -> pd.DataFrame:
        """Rows of the index that are single runs and match ``wanted`` (column = value or list of values).

        Raises :class:`UserError` for a column that is no filter. No match is an empty frame, not an error.
        """
        chosen = self.index
        if "kind" not in wanted:
            chosen = chosen[chosen["kind"] == "run"]
        for column, value in wanted.items():
            if column not in FILTERS:
                raise UserError(f"{column}: is no filter; {nearest(column, FILTERS)}")
            if value is None:
                continue
            values = list(value) if isinstance(value, list | tuple | set) else [value]
            chosen = chosen[chosen[column].isin(values)]
        return chosen.reset_index(drop=True)

    def ours(self, **wanted: Any) -> pd.DataFrame:
        """Our runs that were started and match ``wanted`` (:meth:`runs`), of the setting with most runs: one base
        checkpoint, one configuration but for method and seed, so that settings are never mixed."""
        runs = self.runs(source="ours", **wanted)
        runs = runs[~runs["state"].isin(["new", "queued"])]
        if runs.empty:
            return runs
        largest = runs["setting_id"].value_counts().sort_index().idxmax()
        return runs[runs["setting_id"] == largest].reset_index(drop=True)

    def restrict(self, runs: pd.DataFrame) -> Results:
        """The results of ``runs`` (rows of the index) alone."""
        names = set(runs["run_id"])
        return replace(
            self,
            index=self.index[self.index["run_id"].isin(names)].reset_index(drop=True),
            metrics=self.metrics[self.metrics["run_id"].isin(names)].reset_index(drop=True),
            evals=self.evals[self.evals["run_id"].isin(names)].reset_index(drop=True),
            findings=self.findings[self.findings["run_id"].isin(names)].reset_index(drop=True),
            given_questions=self.questions[self.questions["run_id"].isin(names)].reset_index(drop=True),
        )

    def curves(self, metric: str, runs: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Run id -> values of ``metric`` by step (ascending; steps that were not logged are absent)."""
        found = {}
        for run in sorted(set(runs["run_id"])):
            curve = self.curve(str(run), metric)
            if curve is not None:
                found[str(run)] = curve
        return found

    def curve(self, run_id: str, metric: str) -> pd.Series | None:
        """``metric`` of one run by step, ascending; None when the run never logged it."""
        return self._curves.get((run_id, metric))

    def evaluation(self, run_id: str, benchmark: str, metric: str) -> pd.Series | None:
        """An evaluation of one run by step, ascending (a result whose step is not known first, as step -1); None when
        there is none."""
        return self._evaluations.get((run_id, benchmark, metric))

    def questions_of(self, run_id: str, benchmark: str, step: int) -> pd.DataFrame | None:
        """Rows of ``questions`` of one evaluation of a run; None when there are none."""
        rows = self._question_rows.get((run_id, benchmark, step))
        return None if rows is None else self.questions.iloc[rows]

    def metrics_of(self, run_id: str) -> dict[str, pd.Series]:
        """All curves of one run by metric."""
        found = {metric: self.curve(run_id, metric) for metric in self._metrics_of_run.get(run_id, ())}
        return {metric: curve for metric, curve in found.items() if curve is not None}

    @functools.cached_property
    def _curves(self) -> _Curves:
        return _Curves(self.metrics, ["run_id", "metric"])

    @functools.cached_property
    def _evaluations(self) -> _Curves:
        return _Curves(self.evals, ["run_id", "benchmark", "metric"])

    @functools.cached_property
    def _question_rows(self) -> dict[Any, Any]:
        return dict(self.questions.groupby(["run_id", "benchmark", "step"], sort=False).indices)

    @functools.cached_property
    def _metrics_of_run(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for run_id, metric in self._curves:
            found.setdefault(run_id, []).append(metric)
        return found

    def metric_names(self) -> list[str]:
        return sorted(self.metrics["metric"].dropna().unique())


class _Curves:
    """Rows of equal keys as a Series by step, made when asked for. Where one step is stated twice the last row
    counts; a missing step is -1."""

    def __init__(self, table: pd.DataFrame, keys: list[str]) -> None:
        self._steps = table["step"].fillna(-1).to_numpy(int)
        self._values = table["value"].to_numpy(float)
        self._rows = table.groupby(keys, sort=False).indices
        self._made: dict[Any, pd.Series] = {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def get(self, key: tuple[str, ...]) -> pd.Series | None:
        if key not in self._made:
            rows = self._rows.get(key)
            if rows is None:
                return None
            curve = pd.Series(self._values[rows], index=self._steps[rows])
            self._made[key] = curve[~curve.index.duplicated(keep="last")].sort_index()
        return self._made[key]


def load_results(folder: str | Path) -> Results:
    """Read what ``python -m harness collect`` wrote. Raises :class:`UserError` when a table is missing or damaged."""
    folder = Path(folder)
    tables = {name: read_table(folder, name) for name in ("index", "metrics", "evals", "findings")}
    return Results(folder=folder, **tables)

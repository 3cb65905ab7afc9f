"""The collected tables in memory: what tables and figures start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from harness.analysis.schema import frame, read_table
from harness.errors import UserError, nearest

FILTERS = ("source", "kind", "study", "scale", "task", "model", "method", "group_size", "seed", "engine", "cohort")


@dataclass(frozen=True)
class Results:
    """``index``, ``metrics``, ``evals`` and ``findings`` as described in :mod:`harness.analysis.schema`.

    ``folder`` is where they were read from, None when they were built in memory.
    """

    index: pd.DataFrame
    metrics: pd.DataFrame
    evals: pd.DataFrame
    findings: pd.DataFrame
    folder: Path | None = None

    @staticmethod
    def of(
        index: pd.DataFrame,
        metrics: pd.DataFrame | None = None,
        evals: pd.DataFrame | None = None,
        findings: pd.DataFrame | None = None,
    ) -> Results:
        """Tables typed and sorted from frames with at least the columns in use."""
        empty = pd.DataFrame()
        return Results(
            frame("index", index),
            frame("metrics", empty if metrics is None else metrics),
            frame("evals", empty if evals is None else evals),
            frame("findings", empty if findings is None else findings),
        )

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

    def restrict(self, runs: pd.DataFrame) -> Results:
        """The results of ``runs`` (rows of the index) alone."""
        names = set(runs["run_id"])
        return replace(
            self,
            index=self.index[self.index["run_id"].isin(names)].reset_index(drop=True),
            metrics=self.metrics[self.metrics["run_id"].isin(names)].reset_index(drop=True),
            evals=self.evals[self.evals["run_id"].isin(names)].reset_index(drop=True),
            findings=self.findings[self.findings["run_id"].isin(names)].reset_index(drop=True),
        )

    def curves(self, metric: str, runs: pd.DataFrame) -> Mapping[str, pd.Series]:
        """Run id -> values of ``metric`` by step (ascending; steps that were not logged are absent)."""
        rows = self.metrics[(self.metrics["metric"] == metric) & self.metrics["run_id"].isin(set(runs["run_id"]))]
        return {
            str(run): pd.Series(part["value"].to_numpy(float), index=part["step"].to_numpy(int))
            for run, part in rows.groupby("run_id", sort=True)
        }

    def metric_names(self) -> list[str]:
        return sorted(self.metrics["metric"].dropna().unique())


def load_results(folder: str | Path) -> Results:
    """Read what ``python -m harness collect`` wrote. Raises :class:`UserError` when a table is missing or damaged."""
    folder = Path(folder)
    tables = {name: read_table(folder, name) for name in ("index", "metrics", "evals", "findings")}
    return Results(folder=folder, **tables)

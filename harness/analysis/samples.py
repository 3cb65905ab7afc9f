"""The values of one method that a claim is tested on, with what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.quantities import parse, printed, values
from harness.analysis.results import Results

NEVER = 1e12
"""Stands for a time that was not reached where only the order of times matters."""


@dataclass(frozen=True)
class Sample:
    """``values`` of runs that have one (times not reached are ``censored`` at the given steps). ``stated``: printed
    summaries, used only where no run has a value; they have no spread."""

    values: np.ndarray
    censored: np.ndarray
    stated: np.ndarray
    run_ids: tuple[str, ...]
    is_time: bool = False

    @property
    def from_runs(self) -> bool:
        return len(self.values) + len(self.censored) > 0

    @property
    def empty(self) -> bool:
        return not self.from_runs and len(self.stated) == 0

    @property
    def n(self) -> int:
        return len(self.values) + len(self.censored)

    def ranks(self) -> np.ndarray:
        """Values with times never reached last."""
        return np.concatenate([self.values, np.full(len(self.censored), NEVER)]) if self.from_runs else self.stated

    def centre(self, statistic: str) -> float:
        """Median or mean; inf for a median that falls among runs that never reached. NaN when nothing is known; a mean
        over runs some of which never reached is NaN as well."""
        numbers = self.ranks()
        if len(numbers) == 0 or (statistic == "mean" and len(self.censored)):
            return float("nan")
        centre = float(np.median(numbers) if statistic == "median" else numbers.mean())
        return centre if centre < NEVER / 4 else float("inf")


def sample(results: Results, runs: pd.DataFrame, summaries: pd.DataFrame, quantity: str, method: str) -> Sample:
    """Of ``method`` among ``runs``; from ``summaries`` (published rows that are no runs) where no run has a value."""
    table = values(results, runs[runs["method"] == method], quantity)
    known = table[table["value"].notna()]
    never = table[table["value"].isna() & table["censored"].astype(bool)] if len(table) else table
    stated = np.array([])
    names = tuple(known["run_id"]) + tuple(never["run_id"])
    if len(known) + len(never) == 0 and len(summaries):
        rows = printed(results, summaries[summaries["method"] == method], parse(quantity))
        rows = rows[rows["kind"].isin(["mean", "median"])].drop_duplicates("value")
        stated, names = rows["value"].to_numpy(float), tuple(rows["run_id"])
    return Sample(known["value"].to_numpy(float), never["last"].to_numpy(float), stated, names, parse(quantity).is_time)


def matching(frame: pd.DataFrame, where: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of the index that agree with every filter (a value or a list of values)."""
    agrees = np.ones(len(frame), dtype=bool)
    for column, wanted in where.items():
        agrees &= frame[column].isin(wanted if isinstance(wanted, list) else [wanted]).to_numpy(bool)
    return frame[agrees]

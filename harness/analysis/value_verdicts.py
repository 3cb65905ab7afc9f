"""Every printed number of the paper against the published per-run record and against our runs.

inside        the record's mean is the printed one up to its rounding; for ours, the 90 % interval of the difference
              lies within the tolerance (two one-sided tests at 5 %)
outside       the record differs by more than rounding; for ours, the 95 % interval of the difference excludes 0 and the
              difference is larger than the tolerance
insufficient  neither: n or the spread is too small, or too large, to tell
not run       no run of ours; not published: no per-run record
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from harness.analysis import effects
from harness.analysis.claims import Claims
from harness.analysis.frames import grouped, records
from harness.analysis.intervals import Interval, mean_over_seeds
from harness.analysis.quantities import values
from harness.analysis.results import Results
from harness.analysis.samples import matching
from harness.analysis.selection import started

ROUNDING: Final = 0.51e-4
_SUMMARIES: Final = ("page.csv", "three_rewards.csv")
COLUMNS: Final = [
    "view", "task", "model", "method", "quantity", "printed", "value", "difference", "low", "high", "n", "verdict",
    "reason", "test", "printed_run_id", "run_ids",
]  # fmt: skip


@dataclass(frozen=True)
class PrintedValue:
    run_id: str
    study: str
    task: str
    model: str
    method: str
    group_size: int | None
    quantity: str
    value: float

    def where(self) -> dict[str, object]:
        found: dict[str, object] = {"task": self.task, "model": self.model, "method": self.method}
        return found if self.group_size is None else {**found, "group_size": self.group_size}


def value_verdicts(results: Results, claims: Claims) -> pd.DataFrame:
    """One row for each printed evaluation and view: published (all runs), published, selected, paper (ours)."""
    ours = started(results.index[(results.index["source"] == "ours") & (results.index["scale"] == "paper")])
    theirs = published_runs(results)
    rows = [row for printed in printed_values(results) for row in _judge(results, claims, printed, ours, theirs)]
    return pd.DataFrame(rows, columns=COLUMNS)


def published_runs(results: Results) -> pd.DataFrame:
    """The published single runs: rows of the index."""
    return results.index[(results.index["source"] == "published") & (results.index["kind"] == "run")]


def printed_values(results: Results) -> Iterator[PrintedValue]:
    """Printed means, and the maths results that are single runs, all at a known step."""
    index = results.index[results.index["source"] == "published"]
    stated = (index["kind"] == "mean") & index["origin"].fillna("").str.startswith(_SUMMARIES)
    single = (index["kind"] == "run") & index["study"].isin(["maths_main", "maths_step_100"])
    columns = ["run_id", "study", "task", "model", "method", "group_size"]
    chosen = index[stated | single][columns].merge(results.evals, on="run_id")
    for row in records(chosen[chosen["step"].notna()]):
        size = None if pd.isna(row.group_size) else int(row.group_size)
        quantity = f"{row.benchmark}:{row.metric}@{row.step}"
        yield PrintedValue(row.run_id, row.study, row.task, row.model, row.method, size, quantity, float(row.value))


def against_runs(results: Results, claims: Claims, printed: PrintedValue, runs: pd.DataFrame) -> tuple[str, str]:
    """(verdict, reason) of some of our runs, all of one setting, against one printed number."""
    theirs = runs if runs.empty else _record(published_runs(results), printed)
    row = _against_ours(results, claims, printed, runs, theirs)
    return str(row["verdict"]), str(row["reason"])


def _record(runs: pd.DataFrame, printed: PrintedValue) -> pd.DataFrame:
    """Those of the published ``runs`` that a printed number sums up."""
    studies = [printed.study] if "@100" in printed.quantity else [printed.study, "tool_calling_reruns"]
    theirs = matching(runs, {**printed.where(), "study": studies})
    return theirs[theirs["run_id"] != printed.run_id]


def _judge(
    results: Results, claims: Claims, printed: PrintedValue, ours: pd.DataFrame, theirs: pd.DataFrame
) -> Iterator[dict[str, object]]:
    """``ours``, ``theirs``: all runs of ours at the paper's scale, all published ones."""
    theirs = _record(theirs, printed)
    left_out = theirs["published_exclusion"].notna()
    yield _against_record(results, printed, theirs, "published")
    if left_out.any():
        yield _against_record(results, printed, theirs[~left_out], "published, selected")
    ours = matching(ours, printed.where())
    settings = [part for _, part in grouped(ours, "setting_id", sort=True)] if len(ours) else [ours]
    for part in settings:
        yield _against_ours(results, claims, printed, part, theirs)


def _against_record(results: Results, printed: PrintedValue, runs: pd.DataFrame, view: str) -> dict[str, object]:
    numbers, names = _values(results, runs, printed.quantity)
    if len(numbers) == 0:
        return _row(printed, view, math.nan, None, 0, "not published", "no per-run record", "none", ())
    mean = float(numbers.mean())
    near = abs(mean - printed.value) <= ROUNDING
    spread = mean_over_seeds(numbers)
    interval = Interval(
        mean - printed.value, spread.low - printed.value, spread.high - printed.value, spread.n, 0.95, ""
    )
    reason = f"mean of {len(numbers)} published runs {mean:.2%}"
    return _row(
        printed,
        view,
        mean,
        interval,
        len(numbers),
        "inside" if near else "outside",
        reason,
        "rounding of the page",
        names,
    )


def _against_ours(
    results: Results, claims: Claims, printed: PrintedValue, runs: pd.DataFrame, theirs: pd.DataFrame
) -> dict[str, object]:
    numbers, names = _values(results, runs, printed.quantity)
    tolerance = claims.tolerance(printed.quantity)
    if len(numbers) == 0:
        reason = "not started" if runs.empty else f"{len(runs)} runs started, none evaluated so far"
        return _row(printed, "paper", math.nan, None, 0, "not run", reason, "none", ())
    published, _ = _values(results, theirs, printed.quantity)
    mean = float(numbers.mean())
    if tolerance is None:
        reason = f"no tolerance for {printed.quantity}"
        return _row(printed, "paper", mean, None, len(numbers), "insufficient", reason, "none", names)
    against_runs = len(published) >= 2
    wide = _difference(numbers, published if against_runs else None, printed.value, 0.95)
    narrow = _difference(numbers, published if against_runs else None, printed.value, 0.90)
    basis = f"Welch t against {len(published)} published runs" if against_runs else "t against the printed number"
    test = f"{basis}, tolerance {tolerance:g}"
    if not narrow.known:
        verdict, reason = "insufficient", narrow.note
    elif -tolerance <= narrow.low and narrow.high <= tolerance:
        verdict, reason = "inside", "the 90 % interval lies within the tolerance"
    elif not wide.low <= 0 <= wide.high and abs(wide.estimate) > tolerance:
        verdict, reason = "outside", "the 95 % interval excludes 0 and the difference exceeds the tolerance"
    else:
        verdict = "insufficient"
        reason = f"n = {len(numbers)}: the interval is neither within the tolerance nor away from 0"
    return _row(printed, "paper", mean, wide, len(numbers), verdict, reason, test, names)


def _difference(ours: np.ndarray, theirs: np.ndarray | None, printed: float, level: float) -> Interval:
    if theirs is not None:
        return effects.difference_of_means(ours, theirs, level=level)
    found = mean_over_seeds(ours, level=level)
    note = found.note or ""
    if found.known and found.low == found.high:
        return Interval(found.estimate - printed, math.nan, math.nan, found.n, level, "none", "no spread")
    return Interval(found.estimate - printed, found.low - printed, found.high - printed, found.n, level, "t", note)


def _values(results: Results, runs: pd.DataFrame, quantity: str) -> tuple[np.ndarray, tuple[str, ...]]:
    if runs.empty:
        return np.array([]), ()
    table = values(results, runs, quantity)
    known = table[table["value"].notna()]
    return known["value"].to_numpy(float), tuple(known["run_id"])


def _row(
    printed: PrintedValue,
    view: str,
    value: float,
    interval: Interval | None,
    n: int,
    verdict: str,
    reason: str,
    test: str,
    names: tuple[str, ...],
) -> dict[str, object]:
    return {
        "view": view,
        "task": printed.task,
        "model": printed.model,
        "method": printed.method,
        "quantity": printed.quantity,
        "printed": printed.value,
        "value": value,
        "difference": value - printed.value,
        "low": interval.low if interval else math.nan,
        "high": interval.high if interval else math.nan,
        "n": n,
        "verdict": verdict,
        "reason": reason,
        "test": test,
        "printed_run_id": printed.run_id,
        "run_ids": names,
    }

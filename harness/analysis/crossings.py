"""Crossings of every run of the results, from its own curve or, where the curve is not public, as published."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import pandas as pd

from harness.analysis.frames import grouped, records
from harness.analysis.results import Results
from harness.analysis.survival import Survival, survival
from harness.analysis.thresholds import Crossing, crossing, first_crossing, in_responses, median_curve

PREFIXES: Final = {"first": "first_step", "stable": "stable_step"}
RESPONSES: Final = "responses_generated"
WHOLE_CURVE: Final = 10
"""A curve of fewer observations is no curve: a published crossing is preferred to it."""


def published_metric(rule: str, metric: str, level: float) -> str:
    return f"{PREFIXES.get(rule, rule)}/{metric}@{level:g}"


def crossings(
    results: Results,
    runs: pd.DataFrame,
    metric: str,
    level: float,
    *,
    rule: str = "first",
    hold: int = 3,
    axis: str = "steps",
) -> pd.DataFrame:
    """One row a run of ``runs``: run_id, method, seed, at, after, last, reached, basis, reason.

    ``axis``: ``steps`` or ``responses`` (generated so far, filtered ones included). ``basis``: ``curve``;
    ``few observations`` (a crossing and its reversal in between would not be seen); ``published`` (a printed crossing
    of a run whose curve is not public); ``none`` (nothing known: ``last`` is 0, the run stays in the table). A curve
    seen at a few steps only gives wide (after, at] bounds, never an invented step.
    """
    curves = results.curves(metric, runs)
    counts = results.curves(RESPONSES, runs) if axis == "responses" else {}
    stated_as = published_metric(rule, metric, level)
    rows = []
    for run in records(runs[["run_id", "method", "seed"]]):
        curve = curves.get(run.run_id)
        row = results.curve(str(run.run_id), stated_as)
        if row is not None and axis == "steps" and (curve is None or len(curve) < WHOLE_CURVE):
            found, basis = _stated(float(row.index[-1]), float(row.iloc[-1])), "published"
        elif curve is None or (axis == "responses" and run.run_id not in counts):
            found, basis = Crossing(None, 0.0, 0.0, f"no curve of {metric}"), "none"
        else:
            if axis == "responses":
                curve = in_responses(curve, counts[run.run_id])
            found = crossing(curve, level, rule, hold=hold)
            basis = "curve" if len(curve) >= WHOLE_CURVE else "few observations"
        rows.append(
            {
                "run_id": run.run_id,
                "method": run.method,
                "seed": run.seed,
                "at": found.at,
                "after": found.after,
                "last": found.last,
                "reached": found.reached,
                "basis": basis,
                "reason": found.reason,
            }
        )
    columns = ["run_id", "method", "seed", "at", "after", "last", "reached", "basis", "reason"]
    return pd.DataFrame(rows, columns=columns).astype({"at": "float64", "seed": "Int64"})


def _stated(step: float, value: float) -> Crossing:
    """A printed crossing; ``step`` is the run's last step, negative where that is not known."""
    end = step if step >= 0 else math.nan
    if math.isnan(value):
        return Crossing(None, end, end, "published as never reached")
    return Crossing(value, value - 1, end, "as published")


def held_out_crossings(results: Results, runs: pd.DataFrame, benchmark: str, metric: str, level: float) -> pd.DataFrame:
    """First evaluated checkpoint with ``metric`` >= ``level``; as sparse as the evaluations, see ``after``."""
    rows = []
    for run in records(runs):
        curve = results.evaluation(str(run.run_id), benchmark, metric)
        curve = pd.Series(dtype=float) if curve is None else curve[curve.index >= 0]
        found = first_crossing(curve, level)
        rows.append(
            {"run_id": run.run_id, "method": run.method, "seed": run.seed, **vars(found), "reached": found.reached}
        )
    return pd.DataFrame(rows)


def as_crossings(table: pd.DataFrame) -> list[Crossing]:
    """Rows of :func:`crossings` that say anything (a run of which nothing is known cannot enter an estimate)."""
    return [
        Crossing(None if pd.isna(row.at) else float(row.at), float(row.after), float(row.last), str(row.reason))
        for row in records(table)
        if not (pd.isna(row.at) and row.last == 0)
    ]


def learning_speed(
    results: Results, runs: pd.DataFrame, metric: str, level: float, *, rule: str = "first", axis: str = "steps"
) -> pd.DataFrame:
    """One row a method: per-seed crossings, reached, Kaplan-Meier median and interval, restricted mean, the crossing
    of the median curve, run ids. All methods share one ``tau``, so that restricted means can be compared."""
    table = crossings(results, runs, metric, level, rule=rule, axis=axis)
    known = table[~(table["at"].isna() & (table["last"] == 0))]
    censored = known.loc[known["at"].isna(), "last"]
    tau = float(min(censored.min(), known["last"].min())) if len(censored) else float(known["last"].min())
    rows = []
    for method, part in grouped(table, "method", sort=True):
        found = survival(as_crossings(part), tau=tau if tau == tau else None)
        curves = results.curves(metric, runs[runs["method"] == method])
        whole = {name: curve for name, curve in curves.items() if len(curve) >= WHOLE_CURVE}
        of_median = crossing(median_curve(whole), level, rule).at if len(whole) == len(part) else None
        rows.append(_row(str(method), part, found, of_median))
    return pd.DataFrame(rows)


def _row(method: str, part: pd.DataFrame, found: Survival, of_median: float | None) -> dict[str, object]:
    ordered = part.sort_values("seed")
    return {
        "method": method,
        "n": len(part),
        "reached": found.reached,
        "unknown": int((part["at"].isna() & (part["last"] == 0)).sum()),
        "per_seed": _per_seed(ordered),
        "median": found.median,
        "median_low": found.median_low,
        "median_high": found.median_high,
        "median_from": found.median_from,
        "restricted_mean": found.restricted_mean.estimate,
        "restricted_mean_low": found.restricted_mean.low,
        "restricted_mean_high": found.restricted_mean.high,
        "tau": found.tau,
        "of_median_curve": of_median,
        "run_ids": tuple(ordered["run_id"]),
    }


def _per_seed(table: pd.DataFrame) -> Sequence[str]:
    """``"34"``, ``">100"`` for a censored run, ``"60-100"`` where it was seen no closer, ``"?"`` for an unknown one."""
    texts = []
    for row in records(table):
        if pd.isna(row.at):
            texts.append("?" if row.last == 0 else f">{row.last:g}")
        else:
            texts.append(f"{row.after + 1:g}-{row.at:g}" if row.at - row.after > 1 else f"{row.at:g}")
    return tuple(texts)

"""A quantity of a run, named by one string, so that tables, comparisons and claims speak of the same thing.

``bfcl_v4:accuracy/average``          an evaluation at the run's last step; ``...@60`` at step 60
``reward/format``                     training metric, mean of the last 5 steps; ``...@60`` at step 60
``first_step/reward/format@0.8``      first crossing; ``stable_step/...`` the stable rule, ``sustained_step/...`` hold 3
``first_responses/reward/format@0.8`` the same in responses generated
``first_held_out/reward/length@0.95`` first evaluated checkpoint (benchmark ``pocket`` or ``held_out``)
``density_peak/format``, ``density_peak_step/format``, ``density_area/format``, ``fastest_rise/format``,
``first_cap_step/length``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from harness.analysis import density
from harness.analysis.crossings import crossings, held_out_crossings
from harness.analysis.frames import records
from harness.analysis.results import Results
from harness.errors import UserError

LAST_STEPS: Final = 5
HELD_OUT: Final = ("held_out", "pocket")
CROSSINGS: Final = {
    "first_step": ("first", "steps"),
    "sustained_step": ("sustained", "steps"),
    "stable_step": ("stable", "steps"),
    "first_responses": ("first", "responses"),
    "stable_responses": ("stable", "responses"),
}
COLUMNS: Final = ["run_id", "method", "seed", "value", "censored", "after", "last", "note"]


@dataclass(frozen=True)
class Quantity:
    """``kind``: evaluation, metric, crossing, held_out, density. ``at``: step or threshold, None for the last."""

    text: str
    kind: str
    name: str
    benchmark: str = ""
    at: float | None = None

    @property
    def is_time(self) -> bool:
        """Whether it is a time that a run may never reach."""
        return self.kind in ("crossing", "held_out") or self.text.startswith("first_cap_step/")


_DENSITY: Final[dict[str, Callable[[pd.Series, pd.DataFrame, str], float | int | None]]] = {
    "density_peak": lambda curve, table, channel: density.peak(curve).value,
    "density_peak_step": lambda curve, table, channel: density.peak(curve).step,
    "density_area": lambda curve, table, channel: density.area(curve),
    "fastest_rise": lambda curve, table, channel: density.fastest_rise(
        table.get(f"reward/{channel}", pd.Series(dtype=float))
    ),
    "first_cap_step": lambda curve, table, channel: density.first_cap_step(table, channel),
}


def parse(text: str) -> Quantity:
    """Raises :class:`UserError` for a quantity that has no such form (whether it was logged shows when it is read)."""
    body, _, tail = text.partition("@")
    at = _number(text, tail) if tail else None
    head, _, rest = body.partition("/")
    if head in CROSSINGS or head == "first_held_out":
        if at is None or not rest:
            raise UserError(f"metric {text}: a crossing needs a threshold, e.g. {head}/reward/format@0.8")
        return Quantity(text, "held_out" if head == "first_held_out" else "crossing", rest, head, at)
    if head in _DENSITY:
        if not rest or tail:
            raise UserError(f"metric {text}: give the channel, e.g. {head}/format")
        return Quantity(text, "density", rest, head)
    if ":" in body:
        benchmark, _, name = body.partition(":")
        if not benchmark or not name:
            raise UserError(f"metric {text}: an evaluation is named BENCHMARK:METRIC, e.g. bfcl_v4:accuracy/average")
        return Quantity(text, "evaluation", name, benchmark, at)
    if not body:
        raise UserError(f"metric {text!r}: is empty; e.g. reward/format or bfcl_v4:accuracy/average")
    return Quantity(text, "metric", body, "", at)


def values(results: Results, runs: pd.DataFrame, quantity: Quantity | str) -> pd.DataFrame:
    """One row for each run of ``runs``: run_id, method, seed, value, censored, after, last, note.

    A run without the quantity keeps its row with value NaN and a note; so does a run that ended early, where the
    quantity is about the run's end. For times ``censored`` says that the run was not seen to reach it up to ``last``;
    its value is NaN.
    """
    quantity = parse(quantity) if isinstance(quantity, str) else quantity
    if quantity.kind == "crossing":
        rule, axis = CROSSINGS[quantity.benchmark]
        table = crossings(results, runs, quantity.name, float(quantity.at or 0), rule=rule, axis=axis)
        return _from_crossings(table)
    if quantity.kind == "held_out":
        return _held_out(results, runs, quantity)
    reader = {"evaluation": _evaluation, "metric": _metric, "density": _density}[quantity.kind]
    rows: list[dict[str, object]] = []
    for run in records(runs[["run_id", "method", "seed", "state", "steps", "last_step"]]):
        end = None if pd.isna(run.steps) else float(run.steps)
        value, note = _last_of(run, quantity) or reader(results, str(run.run_id), quantity, end)
        never = quantity.is_time and value is None and not note
        rows.append(
            {
                "run_id": run.run_id,
                "method": run.method,
                "seed": run.seed,
                "value": np.nan if value is None else float(value),
                "censored": never,
                "after": np.nan if value is None else float(value) - 1,
                "last": float(run.last_step) if not pd.isna(run.last_step) else np.nan,
                "note": note or ("never" if never else ""),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _last_of(run: Any, quantity: Quantity) -> tuple[float | None, str] | None:
    """The end of a run that stopped early is not the end of the others."""
    if quantity.kind not in ("metric", "evaluation") or quantity.at is not None:
        return None
    if pd.isna(run.steps) or pd.isna(run.last_step) or run.last_step >= run.steps:
        return None
    return None, f"{run.state}: ended at step {run.last_step} of {run.steps}"


def printed(results: Results, summaries: pd.DataFrame, quantity: Quantity | str) -> pd.DataFrame:
    """The quantity as stated by published summaries (rows of the index that are no runs); columns of :func:`values`."""
    quantity = parse(quantity) if isinstance(quantity, str) else quantity
    rows: list[dict[str, object]] = []
    summaries = summaries[["run_id", "method", "kind", "n_runs"]]
    for row in records(summaries):
        value = _stated(results, str(row.run_id), quantity)
        if value is not None:
            rows.append({"run_id": row.run_id, "method": row.method, "value": value, "n": row.n_runs, "kind": row.kind})
    drawn = {row["method"] for row in rows}
    for row in records(summaries):  # a drawn median curve speaks where nothing is printed
        if quantity.kind != "density" or row.kind != "median" or row.method in drawn:
            continue
        value, _ = _density(results, str(row.run_id), quantity)
        if value is not None:
            rows.append({"run_id": row.run_id, "method": row.method, "value": value, "n": row.n_runs, "kind": row.kind})
    return pd.DataFrame(rows, columns=["run_id", "method", "value", "n", "kind"])


def _stated(results: Results, run_id: str, quantity: Quantity) -> float | None:
    names = [quantity.text, f"{quantity.text}/median_curve"] if quantity.kind == "crossing" else [quantity.text]
    for name in names:
        stated = results.curve(run_id, name)
        if stated is not None:
            return float(stated.iloc[0])
    return _evaluation(results, run_id, quantity)[0] if quantity.kind == "evaluation" else None


def _evaluation(
    results: Results, run_id: str, quantity: Quantity, end: float | None = None
) -> tuple[float | None, str]:
    """``end``: the run's last step, at which it must have been evaluated; None for the last evaluation there is."""
    curve = results.evaluation(run_id, quantity.benchmark, quantity.name)
    at = quantity.at if quantity.at is not None else end
    if curve is not None and at is not None:
        curve = curve[curve.index == int(at)]
    if curve is None or curve.empty:
        return None, f"no evaluation {quantity.benchmark}:{quantity.name}" + ("" if at is None else f" at step {at:g}")
    return float(curve.iloc[-1]), ""


def _metric(results: Results, run_id: str, quantity: Quantity, end: float | None = None) -> tuple[float | None, str]:
    curve = results.curve(run_id, quantity.name)
    curve = pd.Series(dtype=float) if curve is None else curve.dropna()
    if quantity.at is not None:
        curve = curve[curve.index == int(quantity.at)]
    if curve.empty:
        return None, f"no {quantity.name}" + ("" if quantity.at is None else f" at step {quantity.at:g}")
    return float(curve.iloc[-LAST_STEPS:].mean()), ""


def _density(results: Results, run_id: str, quantity: Quantity, end: float | None = None) -> tuple[float | None, str]:
    table = density.metrics_table(results, run_id)
    curve = table.get(f"density/{quantity.name}", pd.Series(dtype=float))
    if quantity.benchmark == "first_cap_step":
        if f"weight/{quantity.name}" not in table and f"cap_hit/{quantity.name}" not in table:
            return None, f"no weight/{quantity.name}"
    elif curve.empty:
        return None, f"no density/{quantity.name}"
    value = _DENSITY[quantity.benchmark](curve, table, quantity.name)
    return (None if value is None or value != value else float(value)), ""


def _held_out(results: Results, runs: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
    for benchmark in HELD_OUT:
        table = held_out_crossings(results, runs, benchmark, quantity.name, float(quantity.at or 0))
        if len(table) and (table["last"] > 0).any():
            return _from_crossings(table)
    return _from_crossings(held_out_crossings(results, runs, HELD_OUT[0], quantity.name, float(quantity.at or 0)))


def _from_crossings(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return pd.DataFrame(columns=COLUMNS)
    table = table.rename(columns={"at": "value", "reason": "note"})
    table["value"] = table["value"].astype(float)
    table["censored"] = table["value"].isna() & (table["last"] > 0)
    return table[COLUMNS]


def _number(text: str, tail: str) -> float:
    try:
        return float(tail)
    except ValueError:
        raise UserError(f"metric {text}: {tail!r} after @ is no number; e.g. reward/format@60") from None

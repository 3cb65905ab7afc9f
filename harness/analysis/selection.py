"""Which runs a table rests on. Every started run counts; one left out needs a written reason, and stays visible.

``paper_tables/selection.yaml`` lists runs of ours that are left out. For published runs the public record's own rule
applies (step-100 validation format below 0.8), so that both versions of its tables can be made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from harness.analysis.frames import grouped, records
from harness.analysis.intervals import mean_over_seeds
from harness.analysis.quantities import Quantity, values
from harness.analysis.results import Results
from harness.analysis.yaml_file import read_yaml
from harness.errors import UserError

SCHEMA: Final = 1
VIEWS: Final = ("all", "selected")


@dataclass(frozen=True)
class Selection:
    """Run id -> reason."""

    left_out: dict[str, str]

    def unknown(self, index: pd.DataFrame) -> list[str]:
        """Runs named here that do not exist; a report should show them (a typing error leaves the run in)."""
        return sorted(set(self.left_out) - set(index["run_id"]))


def load_selection(path: str | Path) -> Selection:
    """Raises :class:`UserError` for a file that is missing or malformed, a run named twice, or an empty reason."""
    path = Path(path)
    content = read_yaml(path, "give a file with schema and left_out")
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or set(content) != {"schema", "left_out"}:
        raise UserError(f"{path}: must have the keys schema: {SCHEMA} and left_out, a list of run and reason")
    left_out: dict[str, str] = {}
    for number, entry in enumerate(content["left_out"] or [], start=1):
        if not isinstance(entry, dict) or set(entry) != {"run", "reason"}:
            raise UserError(f"{path}: entry {number} of left_out must have the keys run and reason")
        run, reason = str(entry["run"]), str(entry["reason"] or "").strip()
        if not reason:
            raise UserError(f"{path}: {run} is left out without a reason; write one, or remove the entry")
        if run in left_out:
            raise UserError(f"{path}: {run} is listed twice; keep one entry")
        left_out[run] = reason
    return Selection(left_out)


def started(index: pd.DataFrame) -> pd.DataFrame:
    """Single runs that were started: anything that is not still new or waiting in a queue."""
    return index[(index["kind"] == "run") & ~index["state"].isin(["new", "queued"])]


def with_reasons(index: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """``index`` with a column ``left_out``: the reason, missing for runs that count."""
    reasons = [
        selection.left_out.get(run_id) or (theirs if source == "published" else None)
        for run_id, source, theirs in zip(index["run_id"], index["source"], index["published_exclusion"], strict=True)
    ]
    return index.assign(left_out=pd.Series(reasons, index=index.index, dtype=object))


def summary(
    results: Results,
    runs: pd.DataFrame,
    quantity: Quantity | str,
    selection: Selection,
    *,
    by: Iterable[str] = ("model", "method"),
) -> pd.DataFrame:
    """Mean over runs for each cell, for all runs and, where a run is left out, for the selected ones as well.

    Columns: ``by``, view (all | selected), mean, sd (ddof 1), low, high (t, 95 %), n, started, note, run_ids,
    without (runs that were started and have no value), left_out (run ids, with the reasons in ``note``). The ``all``
    row is always there, so a table of selected runs cannot be made without it.
    """
    counted = with_reasons(started(runs), selection)
    table = counted.merge(values(results, counted, quantity)[["run_id", "value", "note"]], on="run_id")
    rows = []
    for key, part in grouped(table, list(by), sort=True, dropna=False):
        labels = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        rows.append({**labels, **_cell("all", part)})
        if part["left_out"].notna().any():
            rows.append({**labels, **_cell("selected", part[part["left_out"].isna()], part[part["left_out"].notna()])})
    return pd.DataFrame(rows)


def _cell(view: str, part: pd.DataFrame, left_out: pd.DataFrame | None = None) -> dict[str, object]:
    part = part.sort_values(["seed", "run_id"])
    known = part[part["value"].notna()]
    numbers = known["value"].to_numpy(float)
    interval = mean_over_seeds(numbers)
    notes = [interval.note] if interval.note else []
    without = part[part["value"].isna()]
    notes += [f"{row.run_id}: {row.note}" for row in records(without)]
    if left_out is not None:
        notes += [f"left out {row.run_id}: {row.left_out}" for row in records(left_out)]
    return {
        "view": view,
        "mean": interval.estimate,
        "sd": float(np.std(numbers, ddof=1)) if len(numbers) > 1 else np.nan,
        "low": interval.low,
        "high": interval.high,
        "n": len(numbers),
        "started": len(part),
        "note": "; ".join(notes),
        "run_ids": tuple(known["run_id"]),
        "without": tuple(without["run_id"]),
        "left_out": tuple(left_out["run_id"]) if left_out is not None else (),
    }

"""What each run of ours says about its channels, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

STARVED = 0.1
CAPPED = 0.05


@dataclass(frozen=True)
class Diagnosis:
    run_id: str
    method: str
    seed: str
    channel: str
    peak: str
    mean: str
    weight: str
    capped: str
    words: str


def diagnoses(results: Path) -> list[Diagnosis]:
    """One entry for each run and channel, from analysis/density.csv; empty where that is missing or empty."""
    path = results / "analysis" / "density.csv"
    if not path.exists():
        return []
    table = pd.read_csv(path)
    rows: list[dict[str, Any]] = [dict(row) for row in table.to_dict("records")]  # type: ignore[arg-type]
    return [_diagnosis(row) for row in rows if not pd.isna(row.get("density_mean"))]


def _diagnosis(row: dict[str, Any]) -> Diagnosis:
    return Diagnosis(
        run_id=str(row["run_id"]),
        method=str(row["method"]),
        seed="" if pd.isna(row["seed"]) else str(int(float(str(row["seed"])))),
        channel=str(row["channel"]),
        peak=f"{_number(row, 'peak'):.2f} at step {_number(row, 'peak_step'):.0f}",
        mean=f"{_number(row, 'density_mean'):.2f}",
        weight=_weight(row),
        capped="" if pd.isna(row["capped_share"]) else f"{_number(row, 'capped_share'):.0%}",
        words=_words(row),
    )


def _weight(row: dict[str, Any]) -> str:
    """Nothing where the method logged no weight."""
    if pd.isna(row["weight_mean"]):
        return ""
    return f"{_number(row, 'weight_mean'):.2f} (largest {_number(row, 'weight_max'):.2f})"


def _number(row: dict[str, Any], key: str) -> float:
    return float(str(row[key]))


def _words(row: dict[str, Any]) -> str:
    found = []
    mean = _number(row, "density_mean")
    if mean < STARVED:
        found.append(f"starved: active in {mean:.0%} of the groups")
    capped = row["capped_share"]
    if not pd.isna(capped) and _number(row, "capped_share") > CAPPED:
        found.append(f"the cap binds in {_number(row, 'capped_share'):.0%} of the steps")
    before = row.get("density_before_filter_mean")
    if before is not None and not pd.isna(before):
        found.append(f"filtering raised its density from {float(str(before)):.0%} to {mean:.0%}")
    return "; ".join(found)

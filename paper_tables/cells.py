"""Cells of result tables: our runs with interval and verdict, the published number beside them."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

from figures.looks import MODELS, in_order, look
from harness.analysis.claims import Claims, load_claims
from harness.analysis.crossings import crossings
from harness.analysis.intervals import mean_over_seeds
from harness.analysis.quantities import parse, values
from harness.analysis.results import Results
from harness.analysis.value_verdicts import PrintedValue, against_runs, printed_values
from paper_tables.table import Cell, Row

CLAIMS = Path(__file__).with_name("claims.yaml")
PERCENT = 100.0
POCKET_KL = (
    "GRPO at pocket scale: without the KL term in its reward it reaches the format as well; the term, and not the "
    "aggregation, holds it back (docs/pocket.md). `training.reward_kl_methods=none` runs it without."
)


def pocket_notes(results: Results, runs: pd.DataFrame) -> tuple[str, ...]:
    """What to say about pocket ``runs``: the KL term, where a run of GRPO never learnt the format."""
    grpo = runs[runs["method"] == "grpo"]
    never = len(grpo) > 0 and crossings(results, grpo, "reward/format", 0.8)["at"].isna().any()
    return (POCKET_KL,) if never else ()


def method_label(name: str) -> str:
    return look(name).label


def model_label(name: str) -> str:
    return MODELS.get(name, name)


class Cells:
    """Builds cells of one ``results``; which numbers were printed is looked up once."""

    def __init__(self, results: Results, claims: Claims | None = None) -> None:
        self.results = results
        self.claims = claims or load_claims(CLAIMS)

    def published(self, run_id: str, quantity: str) -> float | None:
        """The number of a published summary or single run, None where it prints none."""
        wanted = parse(quantity)
        if wanted.kind != "evaluation":
            curve = self.results.curve(run_id, quantity)
        else:
            curve = self.results.evaluation(run_id, wanted.benchmark, wanted.name)
            if curve is not None and wanted.at is not None:
                curve = curve[curve.index == int(wanted.at)]
        return None if curve is None or curve.empty else float(curve.iloc[-1])

    @functools.cached_property
    def _printed(self) -> dict[tuple[str, str], PrintedValue]:
        return {(item.run_id, item.quantity): item for item in printed_values(self.results)}

    def _verdict(self, runs: pd.DataFrame, quantity: str, printed: str | None) -> tuple[str, str]:
        """Of the runs in the cell, and no others, against its printed number."""
        number = None if printed is None else self._printed.get((printed, quantity))
        return ("", "") if number is None else against_runs(self.results, self.claims, number, runs)

    def runs(self, **wanted: object) -> pd.DataFrame:
        return self.results.ours(**wanted)

    def cell(self, runs: pd.DataFrame, quantity: str, *, printed: str | None = None, factor: float = PERCENT) -> Cell:
        """Mean over ``runs`` with its t interval, times ``factor``; ``printed``: the published summary's id."""
        stated = self.published(printed, quantity) if printed is not None else None
        verdict, reason = self._verdict(runs, quantity, printed)
        beside = {
            "published": None if stated is None else stated * factor,
            "verdict": verdict if stated is not None else "not published",
            "reason": reason,
        }
        if runs.empty:
            return Cell(why="not run", **beside)  # type: ignore[arg-type]
        table = values(self.results, runs, quantity)
        known = table.dropna(subset=["value"])
        if known.empty:
            why = "; ".join(sorted(set(table["note"].dropna()) - {""})) or "not evaluated"
            return Cell(why=why, **beside)  # type: ignore[arg-type]
        found = mean_over_seeds(known["value"].to_numpy(float))
        return Cell(
            value=found.estimate * factor,
            low=found.low * factor,
            high=found.high * factor,
            n=found.n,
            run_ids=tuple(known["run_id"]),
            **beside,  # type: ignore[arg-type]
        )


def with_best(rows: list[Row], key: str, *, higher: bool = True) -> list[Row]:
    """Mark the best method of each section, but only where its interval lies apart from every other method's."""
    marked = list(rows)
    for section in {row.section for row in rows}:
        places = [place for place, row in enumerate(marked) if row.section == section and _interval(row, key)]
        if len(places) < 2:
            continue
        sign = 1 if higher else -1
        best = max(places, key=lambda place: sign * float(marked[place].cells[key].value or 0))
        low, high = _interval(marked[best], key)  # type: ignore[misc]
        others = [_interval(marked[place], key) for place in places if place != best]
        apart = all(low > other[1] if higher else high < other[0] for other in others if other)
        if apart:
            row = marked[best]
            cell = row.cells[key]
            content = {name: getattr(cell, name) for name in cell.__dataclass_fields__} | {"best": True}
            marked[best] = Row(row.label, {**row.cells, key: Cell(**content)}, row.section)
    return marked


def _interval(row: Row, key: str) -> tuple[float, float] | None:
    cell = row.cells.get(key)
    if cell is None or cell.low is None or cell.high is None or isinstance(cell.value, str):
        return None
    return cell.low, cell.high


def methods_of(*frames: pd.DataFrame) -> list[str]:
    """Methods of the frames in the usual order, the base model first."""
    ordered = in_order({str(name) for frame in frames for name in frame["method"]})
    return [name for name in ordered if name == "base"] + [name for name in ordered if name != "base"]

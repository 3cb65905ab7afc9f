"""Assembles the page from a template; everything that comes from files is escaped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined

from harness.analysis.results import load_results
from harness.report import content
from harness.report.diagnosis import diagnoses
from harness.report.matrix import study_states

ORDER = ("holds", "fails", "insufficient", "not run", "not published")
VIEWS = {
    "published": "on the published runs",
    "paper": "on our runs at paper scale",
    "pocket": "on our pocket runs",
}
DASH = "\N{EN DASH}"


def render(results: Path) -> str:
    """The page as one HTML text. Raises :class:`~harness.errors.UserError` when results/ has not been collected."""
    collected = load_results(results)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = _number
    environment.filters["interval"] = _interval
    environment.globals["provenance"] = _provenance
    template = environment.from_string(_asset("page.html"))
    index = collected.index
    ours = index[(index["source"] == "ours") & (index["kind"] == "run")]
    return template.render(
        style=_asset("style.css"),
        script=_asset("script.js"),
        studies=study_states(index, results),
        runs=ours[["run_id", "study", "method", "seed", "state", "reason", "last_step", "steps"]].to_dict("records"),
        findings=_findings(collected.findings),
        claims=_claims(content.verdicts(results)),
        tables=content.tables(results),
        figures=content.figures(results),
        diagnoses=diagnoses(results),
        deviations=_deviations(),
        published=int(((index["source"] == "published") & (index["kind"] == "run")).sum()),
    )


def _asset(name: str) -> str:
    return (resources.files("harness.report") / "assets" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class ClaimsView:
    """Claims that were judged, those that hold first; texts of the others; how many of each verdict."""

    title: str
    judged: list[dict[str, Any]]
    open: list[str]
    counts: dict[str, int]


def _claims(rows: list[dict[str, Any]]) -> list[ClaimsView]:
    found = []
    for view, title in VIEWS.items():
        part = [row for row in rows if row["view"] == view]
        part.sort(key=lambda row: ORDER.index(row["verdict"]) if row["verdict"] in ORDER else len(ORDER))
        judged = [row for row in part if row["verdict"] not in ("not run", "not published")]
        known = {row["claim"] for row in judged}
        waiting = [row["text"] for row in part if row["claim"] not in known]
        counts = Counter(row["verdict"] for row in judged)
        found.append(ClaimsView(title, judged, list(dict.fromkeys(waiting)), dict(counts)))
    return found


def _findings(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(key): "" if pd.isna(value) else str(value) for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def _deviations() -> list[str]:
    """The entries of docs/deviations.md (lines that start a list item), where the repository is at hand."""
    path = Path(__file__).resolve().parents[2] / "docs" / "deviations.md"
    if not path.exists():
        return []
    items: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith(("- ", "* ")):
            items.append(line[2:])
        elif line.startswith("  ") and items:
            items[-1] += " " + line.strip()
    return [item.replace("`", "").replace("**", "") for item in items]


def _number(value: Any, decimals: int) -> str:
    if value is None:
        return DASH
    if isinstance(value, str):
        return value
    text = f"{value:,.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def _interval(cell: dict[str, Any], decimals: int) -> str:
    if cell["low"] is None or cell["high"] is None:
        return ""
    return f"[{_number(cell['low'], decimals)}, {_number(cell['high'], decimals)}]"


def _provenance(cell: dict[str, Any], column: dict[str, Any], row: dict[str, Any]) -> str:
    """What a reader sees about one number on hover or click."""
    lines = [f"{row['section']}: {row['label']}, {column['label']}".lstrip(": ")]
    decimals = column["decimals"]
    if cell["value"] is not None:
        lines.append(f"ours {_number(cell['value'], decimals)} {_interval(cell, decimals)}".strip())
    elif cell["why"]:
        lines.append(f"ours: {cell['why']}")
    if cell["published"] is not None:
        lines.append(f"published {_number(cell['published'], decimals)}")
    if cell["difference"] is not None:
        lines.append(f"difference {cell['difference']:+.{decimals}f}")
    if cell["verdict"]:
        lines.append(f"verdict: {cell['verdict']}" + (f" ({cell['reason']})" if cell["reason"] else ""))
    if cell["n"] is not None:
        lines.append(f"runs: {cell['n']}")
    lines.extend(cell["run_ids"])
    return "\n".join(lines)

"""Assembles the page from a template; everything that comes from files is escaped."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

from harness.analysis.results import load_results
from harness.report import content
from harness.report.claims import claims_views
from harness.report.diagnosis import diagnoses
from harness.report.documents import document
from harness.report.matrix import study_states
from harness.report.summary import summary
from paper_tables.table import shown


def render(results: Path) -> str:
    """The page as one HTML text. Raises :class:`~harness.errors.UserError` when results/ has not been collected."""
    collected = load_results(results)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = shown
    environment.filters["interval"] = _interval
    environment.filters["prose"] = _prose
    environment.globals["provenance"] = _provenance
    template = environment.from_string(_asset("page.html"))
    index = collected.index
    ours = index[(index["source"] == "ours") & (index["kind"] == "run")]
    claims = claims_views(content.verdicts(results))
    tables = content.tables(results)
    published = int(((index["source"] == "published") & (index["kind"] == "run")).sum())
    return template.render(
        style=_asset("style.css"),
        script=_asset("script.js"),
        summary=summary(ours, published, claims, tables),
        studies=study_states(index, results),
        runs=_run_rows(ours),
        findings=_findings(collected.findings),
        claims=claims,
        tables=tables,
        figures=content.figures(results),
        diagnoses=diagnoses(results),
        deviations=Markup(document("deviations.md")),
    )


def _asset(name: str) -> str:
    return (resources.files("harness.report") / "assets" / name).read_text(encoding="utf-8")


def _run_rows(runs: pd.DataFrame) -> list[dict[str, Any]]:
    """Runs that are not done first: they are what a reader has to know about."""
    columns = ["run_id", "study", "method", "seed", "state", "reason", "last_step", "steps"]
    ordered = runs.assign(finished=runs["state"] == "done").sort_values(["finished", "run_id"], kind="stable")
    return [
        {str(key): "" if pd.isna(value) else value for key, value in row.items()}
        for row in ordered[columns].to_dict("records")
    ]


def _prose(text: str) -> Markup:
    """Text in which `code` stands between backticks."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _findings(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {str(key): "" if pd.isna(value) else str(value) for key, value in row.items()}
        for row in table.to_dict("records")
    ]


def _interval(cell: dict[str, Any], decimals: int) -> str:
    if cell["low"] is None or cell["high"] is None:
        return ""
    return f"[{shown(cell['low'], decimals)}, {shown(cell['high'], decimals)}]"


def _provenance(cell: dict[str, Any], column: dict[str, Any], row: dict[str, Any]) -> str:
    """What a reader sees about one number on hover or click."""
    lines = [f"{row['section']}: {row['label']}, {column['label']}".lstrip(": ")]
    decimals = column["decimals"]
    if cell["value"] is not None:
        lines.append(f"ours {shown(cell['value'], decimals)} {_interval(cell, decimals)}".strip())
    elif cell["why"]:
        lines.append(f"ours: {cell['why']}")
    if cell["published"] is not None:
        lines.append(f"published {shown(cell['published'], decimals)}")
    if cell["difference"] is not None:
        lines.append(f"difference {cell['difference']:+.{decimals}f}")
    if cell["verdict"]:
        lines.append(f"verdict: {cell['verdict']}" + (f" ({cell['reason']})" if cell["reason"] else ""))
    if cell["n"] is not None:
        lines.append(f"runs: {cell['n']}")
    lines.extend(cell["run_ids"])
    return "\n".join(lines)

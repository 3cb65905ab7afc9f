"""What stands on the page: the tables and figures found in results/, and the pages of docs/ it quotes."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UserError

LARGEST_SVG = 220_000
"""Bytes; a larger vector picture (many points) is shown as its PNG, the vector file stays one click away."""


CSS_PIXELS = 96
"""To the inch."""


@dataclass(frozen=True)
class FigureView:
    """``width`` and ``height`` in pixels of CSS, so that the page does not move while pictures arrive."""

    name: str
    title: str
    caption: str
    paper_item: str
    run_ids: list[str]
    missing: list[str]
    source: str
    width: int
    height: int
    downloads: list[tuple[str, str]]


def figures(results: Path) -> list[FigureView]:
    """Every figure in results/figures, those of the paper first."""
    found = [_figure(path) for path in sorted((results / "figures").glob("*.json"))]
    return sorted(found, key=lambda view: (not view.paper_item.startswith("Figure"), not view.paper_item, view.name))


def tables(results: Path) -> list[dict[str, Any]]:
    """Every table in results/tables as its JSON, with the fields a reader sees prepared."""
    found = []
    for path in sorted((results / "tables").glob("*.json")):
        table = _json(path)
        table["downloads"] = [
            (suffix, f"../tables/{table['name']}.{suffix}") for suffix in ("csv", "md", "tex", "json")
        ]
        table["sections"] = list(dict.fromkeys(row["section"] for row in table["rows"]))
        cells = [(key, cell) for row in table["rows"] for key, cell in row["cells"].items()]
        table["has_published"] = any(cell["published"] is not None for _, cell in cells)
        table["has_ours"] = any(cell["value"] is not None for _, cell in cells)
        table["numeric"] = {key for key, _ in cells} - {key for key, cell in cells if isinstance(cell["value"], str)}
        found.append(table)
    return found


def verdicts(results: Path) -> list[dict[str, Any]]:
    path = results / "analysis" / "verdicts.json"
    return list(_json(path)["claims"]) if path.exists() else []


def _figure(path: Path) -> FigureView:
    words = _json(path)
    missing = [key for key in ("title", "caption", "run_ids", "width", "height") if key not in words]
    if missing:
        raise UserError(f"{path}: has no {missing[0]}; build it again with `python -m figures {path.stem}`")
    svg, png = path.with_suffix(".svg"), path.with_suffix(".png")
    if svg.exists() and svg.stat().st_size <= LARGEST_SVG:
        source = "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode()
    else:
        source = "data:image/png;base64," + base64.b64encode(png.read_bytes()).decode()
    return FigureView(
        name=words["name"],
        title=words["title"],
        caption=words["caption"],
        paper_item=words["paper_item"],
        run_ids=words["run_ids"],
        missing=words["missing"],
        source=source,
        width=round(words["width"] * CSS_PIXELS),
        height=round(words["height"] * CSS_PIXELS),
        downloads=[(suffix, f"../figures/{words['name']}.{suffix}") for suffix in ("csv", "pdf", "svg", "png")],
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); build it again") from error

"""One table in four forms: Markdown, LaTeX (booktabs), CSV and JSON. Equal tables give equal bytes."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable
from pathlib import Path

from paper_tables.table import ABSENT, Cell, Column, Row, Shows, Table, interval_text, shown, shows

SCHEMA = 1
LONG_TEXT = 34
"""Characters."""


def write(table: Table, folder: Path) -> list[Path]:
    """Write ``<folder>/<name>.{md,tex,csv,json}``; returns the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for suffix, render in FORMATS.items():
        path = folder / f"{table.name}.{suffix}"
        path.write_text(render(table), encoding="utf-8", newline="\n")
        paths.append(path)
    return paths


def markdown(table: Table) -> str:
    """Sections as bold rows; a cell reads ``ours [interval] (n) | published``."""
    kind = shows(table)
    lines = [f"# {table.title}", "", _with_key(table.caption, kind), ""]
    lines += ["| " + " | ".join(_escape_markdown(text) for text in _headings(table)) + " |"]
    lines += [
        "|" + "|".join([":---", *["---:" if _numeric(table, column) else ":---" for column in table.columns]]) + "|"
    ]
    for section in table.sections():
        if section:
            lines.append(f"| **{_escape_markdown(section)}** |" + " |" * len(table.columns))
        for row in _rows(table, section):
            cells = [_markdown_cell(table.cell(row, column), column, kind) for column in table.columns]
            lines.append("| " + " | ".join([_escape_markdown(row.label), *cells]) + " |")
    lines += _empty_reasons(table) + _notes(table)
    return "\n".join(lines) + "\n"


def latex(table: Table) -> str:
    """A ``table`` environment that needs ``booktabs``; wide tables shrink to the line width with ``graphicx``."""
    kind = shows(table)
    alignment = "l" + "".join(_latex_column(table, column) for column in table.columns)
    lines = [
        "\\begin{table}[t]",
        "\\centering",
        f"\\caption{{{_escape_latex(table.title + '. ' + _with_key(table.caption, kind))}}}",
        f"\\label{{tab:{table.name.replace('_', '-')}}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{alignment}}}",
        "\\toprule",
        " & ".join(_escape_latex(text) for text in _headings(table)) + " \\\\",
        "\\midrule",
    ]
    for number, section in enumerate(table.sections()):
        if number:
            lines.append("\\midrule")
        if section:
            lines.append(f"\\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\\emph{{{_escape_latex(section)}}}}} \\\\")
        for row in _rows(table, section):
            cells = [_latex_cell(table.cell(row, column), column, kind) for column in table.columns]
            lines.append(" & ".join([_escape_latex(row.label), *cells]) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}}", "\\end{table}"]
    return "\n".join(lines) + "\n"


def comma_separated(table: Table) -> str:
    """Long form, one line per cell, full precision; run ids joined by spaces."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["table", "section", "row", "column", "unit", *_CELL_FIELDS, "difference"])
    for row in table.rows:
        for column in table.columns:
            cell = table.cell(row, column)
            values = [" ".join(cell.run_ids) if name == "run_ids" else getattr(cell, name) for name in _CELL_FIELDS]
            writer.writerow([table.name, row.section, row.label, column.label, column.unit, *values, cell.difference])
    return stream.getvalue()


def json_text(table: Table) -> str:
    content = {"schema": SCHEMA, **dataclasses.asdict(table)}
    for row, stored in zip(table.rows, content["rows"], strict=True):
        for key, cell in row.cells.items():
            stored["cells"][key]["difference"] = cell.difference
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": comma_separated,
    "json": json_text,
}
_CELL_FIELDS = [field.name for field in dataclasses.fields(Cell)]


def _headings(table: Table) -> list[str]:
    return [table.row_heading, *[column.heading for column in table.columns]]


def _rows(table: Table, section: str) -> list[Row]:
    return [row for row in table.rows if row.section == section]


def _numeric(table: Table, column: Column) -> bool:
    cells = [table.cell(row, column) for row in table.rows]
    return any(
        not isinstance(cell.value, str) for cell in cells if cell.value is not None or cell.published is not None
    )


def _with_key(caption: str, kind: Shows) -> str:
    key = {
        "ours": "",
        "published": " Published numbers; no run of ours is here yet.",
        "both": " Cells: ours [95 % interval] (runs) | published.",
    }
    return caption + key[kind]


def _parts(cell: Cell, column: Column, kind: Shows) -> tuple[str, str, str]:
    """What stands first, what qualifies it, and the published value beside it."""
    published = shown(cell.published, column.decimals)
    if kind == "published":
        return published, "", ""
    qualifier = interval_text(cell, column.decimals)
    if cell.n is not None and cell.value is not None:
        qualifier = f"{qualifier} ({cell.n})".strip()
    return shown(cell.value, column.decimals), qualifier, published if kind == "both" else ""


def _markdown_cell(cell: Cell, column: Column, kind: Shows) -> str:
    value, qualifier, other = _parts(cell, column, kind)
    text = _escape_markdown(value)
    text = f"**{text}**" if cell.best else text
    text = f"{text} {qualifier}".strip()
    return f"{text} \\| {_escape_markdown(other)}" if other else text


def _latex_cell(cell: Cell, column: Column, kind: Shows) -> str:
    value, qualifier, other = (_escape_latex(part) for part in _parts(cell, column, kind))
    value = f"\\textbf{{{value}}}" if cell.best else value
    text = f"{value} {{\\scriptsize {qualifier}}}" if qualifier else value
    return f"{text} $\\mid$ {other}" if other else text


def _latex_column(table: Table, column: Column) -> str:
    """Numbers to the right; long texts are broken into lines instead of shrinking the whole table."""
    if _numeric(table, column):
        return "r"
    longest = max((len(str(table.cell(row, column).value or "")) for row in table.rows), default=0)
    return f"p{{{min(longest * 0.16, 7):.1f}cm}}" if longest > LONG_TEXT else "l"


def _empty_reasons(table: Table) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for row in table.rows:
        for column in table.columns:
            cell = table.cell(row, column)
            if cell.value is None and cell.why:
                reasons.setdefault(cell.why, []).append(f"{row.section} {row.label}".strip())
    lines = [f"- {ABSENT} {why}: {', '.join(dict.fromkeys(places))}" for why, places in reasons.items()]
    return ["", *lines] if lines else []


def _notes(table: Table) -> list[str]:
    return ["", *[f"- {note}" for note in table.notes]] if table.notes else []


def _escape_markdown(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")


_LATEX = {
    "\\": "\\textbackslash{}",
    "&": "\\&",
    "%": "\\%",
    "$": "\\$",
    "#": "\\#",
    "_": "\\_",
    "{": "\\{",
    "}": "\\}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "\N{EN DASH}": "--",
    "\N{GREEK SMALL LETTER PI}": "$\\pi$",
    "\N{GREEK SMALL LETTER SIGMA}": "$\\sigma$",
    "\N{GREEK SMALL LETTER OMEGA}": "$\\omega$",
    "\N{GREEK SMALL LETTER MU}": "$\\mu$",
    "\N{GREEK SMALL LETTER RHO}": "$\\rho$",
    "\N{GREEK SMALL LETTER KAPPA}": "$\\kappa$",
    "\N{GREEK SMALL LETTER GAMMA}": "$\\gamma$",
    "\N{SUPERSCRIPT TWO}": "$^2$",
    "\N{GREATER-THAN OR EQUAL TO}": "$\\geq$",
    "\N{LESS-THAN OR EQUAL TO}": "$\\leq$",
    "\N{PLUS-MINUS SIGN}": "$\\pm$",
    "\N{MINUS SIGN}": "$-$",
    "\N{MULTIPLICATION SIGN}": "$\\times$",
}


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)

"""The diagnosis as one HTML page that loads nothing; whatever comes from the log is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from harness.diagnose import text
from harness.diagnose.findings import findings
from harness.diagnose.plot import plot
from harness.diagnose.report import Diagnosis

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.scroll { overflow: auto; max-height: 32rem; } svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { position: sticky; top: 0; background: #f5f5f5; } .left { text-align: left; }
.warnings { color: #8a4b00; } pre { background: #f5f5f5; padding: .6rem; overflow: auto; } small { color: #555; }
"""


def page(found: Diagnosis) -> str:
    """The whole page, UTF-8, with every step, plots and findings."""
    return "\n".join(_page(found)) + "\n"


def _page(found: Diagnosis) -> Iterator[str]:
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>Reward diagnosis</title><style>{_STYLE}</style></head><body>"
    yield "<h1>Reward diagnosis</h1>"
    yield f"<pre>{_safe(chr(10).join(text.reading_lines(found)))}</pre>"
    yield from _bullets(found.warnings, "warnings")
    yield "<h2>Findings</h2>"
    yield from _bullets(findings(found), "findings")
    yield "<h2>Density and energy</h2>"
    yield plot(found)
    everything = range(len(found.steps))
    rows = [
        text.step_cells(str(found.steps[place].step), channel, found.steps[place].channels[channel])
        for place in everything
        for channel in found.channels
    ]
    yield "<h2>Channels by step</h2>"
    yield from _table(text.STEP_HEADER, rows, left=(1,))
    yield f"<p><small>{_safe(' '.join(text.LEGEND))}</small></p>"
    yield "<h2>Groups by step</h2>"
    yield from _table(text.GROUP_HEADER, text.group_rows(found, everything), left=())
    yield "<h2>Every method on the same batches</h2>"
    yield f"<p>Final normalisation over the batch by {_safe(found.normalization)} where the method has one.</p>"
    yield from _table(text.replay_header(found), text.replay_rows(found), left=(0,))
    yield from _bullets(
        [f"{item.method.name}: not run, {item.skipped}" for item in found.replays if item.skipped], "skipped"
    )
    yield "</body></html>"


def _safe(value: str) -> str:
    return escape("".join(char if char.isprintable() or char == "\n" else "?" for char in value))


def _bullets(lines: Sequence[str], kind: str) -> Iterator[str]:
    if lines:
        yield f'<ul class="{kind}">' + "".join(f"<li>{_safe(line)}</li>" for line in lines) + "</ul>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> Iterator[str]:
    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="left">{_safe(cell)}</{tag}>' if place in left else f"<{tag}>{_safe(cell)}</{tag}>"
            for place, cell in enumerate(row)
        )

    yield f'<div class="scroll"><table><thead><tr>{cells(header, "th")}</tr></thead><tbody>'
    for row in rows:
        yield f"<tr>{cells(row, 'td')}</tr>"
    yield "</tbody></table></div>"

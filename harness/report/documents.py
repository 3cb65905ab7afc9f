"""Pages of docs/ as parts of the report: Markdown to HTML, with nothing in it that a browser would execute."""

from __future__ import annotations

import re
from pathlib import Path

from markdown_it import MarkdownIt

DOCS = Path(__file__).resolve().parents[2] / "docs"


def document(name: str, *, below: int = 2) -> str:
    """``docs/<name>`` without its title, its headings ``below`` levels lower; empty where docs/ is not at hand. Links
    to other pages of docs/ are shown as code: the report stands elsewhere."""
    path = DOCS / name
    if not path.exists():
        return ""
    text = re.sub(r"\A# .*\n", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)]*\)", r"\1", text)
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return re.sub(r"<(/?)h(\d)>", lambda found: f"<{found[1]}h{min(int(found[2]) + below - 1, 6)}>", html)

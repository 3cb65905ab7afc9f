"""Bring the numbers and the picture that README.md shows up to date with results/.

Copies Figure 1 and the two tables behind the block to docs/shown/ and writes the block of README.md from them; --check
changes nothing and says whether README.md is what docs/shown/ makes it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.store.files import make_folder, write_atomically

ROOT = Path(__file__).resolve().parents[2]
FIGURE = "fig01_format_density"
SPEED, POCKET = "table_learning_speed", "table_pocket"
BEGIN, END = "<!-- made by `python -m harness readme`: begin -->", "<!-- end -->"
PAPER_SECTION, POCKET_SECTION = "Qwen2.5-1.5B, published", "pocket, ours"
POCKET_TASK = "tool calling, two rewards, G = 4"
DASH = "\N{EN DASH}"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder to read (default: %(default)s)")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="only say whether README.md is up to date; 1 if it is not")


def main(args: argparse.Namespace) -> int:
    readme, shown = args.root / "README.md", args.root / "docs" / "shown"
    if not args.check:
        _take(args.results, shown)
    text = with_block(readme.read_text(encoding="utf-8"), block(shown))
    if text == readme.read_text(encoding="utf-8"):
        print(f"{readme}: up to date")
        return 0
    if args.check:
        print(f"{readme}: not what {shown} makes it; run `python -m harness readme`")
        return 1
    write_atomically(readme, text.encode())
    print(f"{readme}: written from {shown}")
    return 0


def _take(results: Path, shown: Path) -> None:
    sources = [results / "figures" / f"{FIGURE}.{suffix}" for suffix in ("png", "json")]
    sources += [results / "tables" / f"{name}.json" for name in (SPEED, POCKET)]
    missing = [path for path in sources if not path.exists()]
    if missing:
        raise UserError(f"{missing[0]} does not exist; make it with `dvc repro`")
    make_folder(shown)
    for path in sources:
        shutil.copyfile(path, shown / path.name)


def with_block(text: str, block: str) -> str:
    """``text`` with what stands between the two marks replaced."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise UserError(f"README.md: the marks {BEGIN} and {END} are missing; put them where the numbers shall stand")
    return f"{before}{BEGIN}\n\n{block}\n{END}{after}"


def block(shown: Path) -> str:
    """Markdown of the figure, its caption and the learning speed: the paper's runs and pocket runs in columns of their
    own."""
    words = _read(shown / f"{FIGURE}.json")
    speed, pocket = _rows(_read(shown / f"{SPEED}.json")), _rows(_read(shown / f"{POCKET}.json"))
    methods = list(dict.fromkeys(label for section, label in speed if section == POCKET_SECTION))
    lines = [
        f"![{words['title']}](docs/shown/{FIGURE}.png)",
        "",
        f"*{words['title']}. {words['caption']}*",
        "",
        "First step with a format reward of 0.8. Pocket is a model of 0.2 million parameters on generated text, not",
        "one of the paper's:",
        "",
        "| method | paper, Qwen2.5-1.5B: per seed | median | pocket: per seed | median | pocket: final format |",
        "|---|---|---:|---|---:|---:|",
    ]
    for method in methods:
        theirs, ours = speed.get((PAPER_SECTION, method)), speed[POCKET_SECTION, method]
        final = pocket.get((POCKET_TASK, method), {}).get("reward/format")
        cells = [method, *_speed(theirs), *_speed(ours), _final(final)]
        lines.append("| " + " | ".join(cells) + " |")
    notes = [note for note in _read(shown / f"{SPEED}.json")["notes"] if "GRPO" in note]
    return "\n".join([*lines, "", *notes, ""])


def _speed(cells: Mapping[str, Any] | None) -> list[str]:
    if cells is None:
        return [DASH, DASH]
    median = cells["median"]["value"]
    return [cells["per_seed"]["value"], "never" if median is None else f"{median:g}"]


def _final(cell: Mapping[str, Any] | None) -> str:
    return DASH if cell is None or cell["value"] is None else f"{cell['value']:.3f}"


def _rows(table: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    return {(row["section"], row["label"]): row["cells"] for row in table["rows"]}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error}); make it with `python -m harness readme`") from error

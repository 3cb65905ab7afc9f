"""What a figure module returns, and how it is written: the same data give the same bytes in every format."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from figures.style import RC

COLUMNS = ["panel", "method", "series", "run_id", "step", "value"]
"""series: seed, median, low, high, published, published low, published high, crossing, ..."""


@dataclass(frozen=True)
class Picture:
    """``data`` holds every number drawn (:data:`COLUMNS`); ``caption`` says what is shown and of how many runs."""

    name: str
    title: str
    caption: str
    figure: Figure
    data: pd.DataFrame
    paper_item: str = ""
    missing: tuple[str, ...] = field(default=())

    def run_ids(self) -> list[str]:
        names: list[object] = list(self.data["run_id"].dropna().unique()) if "run_id" in self.data else []
        return sorted(str(name) for name in names if str(name))


def write(picture: Picture, folder: Path) -> list[Path]:
    """``<folder>/<name>.{pdf,svg,png,csv,json}``; the JSON holds title, caption, run ids, what is missing, inches."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with mpl.rc_context(RC):
        picture.figure.draw_without_rendering()
        picture.figure.set_layout_engine("none")  # one layout for the three formats
        for suffix, metadata in (("pdf", {"CreationDate": None}), ("svg", {"Date": None}), ("png", {"Software": None})):
            path = folder / f"{picture.name}.{suffix}"
            picture.figure.savefig(path, format=suffix, dpi=160, metadata=metadata)
            paths.append(path)
    table = folder / f"{picture.name}.csv"
    picture.data.to_csv(table, index=False, lineterminator="\n", float_format="%.10g")
    words = folder / f"{picture.name}.json"
    width, height = (float(length) for length in picture.figure.get_size_inches())
    content = {
        "name": picture.name,
        "title": picture.title,
        "caption": picture.caption,
        "paper_item": picture.paper_item,
        "run_ids": picture.run_ids(),
        "missing": list(picture.missing),
        "width": round(width, 3),
        "height": round(height, 3),
    }
    words.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return [*paths, table, words]

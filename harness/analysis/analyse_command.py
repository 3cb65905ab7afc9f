"""From the collected tables to verdicts, learning speed and density summaries: files that the report and dvc read.

Writes results/analysis/{verdicts.json, learning_speed.csv, density.csv, pocket_format.csv} and results/metrics.json.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from harness.analysis.claims import load_claims
from harness.analysis.collect import REFERENCE
from harness.analysis.crossings import learning_speed
from harness.analysis.density import density_summary
from harness.analysis.results import Results, load_results
from harness.analysis.selection import started
from harness.analysis.thresholds import median_curve
from harness.analysis.value_verdicts import value_verdicts
from harness.analysis.verdicts import verdict_table
from harness.store.files import make_folder, write_atomically

CHANNELS = ("correctness", "format", "length")
LEVEL = 0.8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="collected tables (default: %(default)s)")
    parser.add_argument("--claims", type=Path, default=REFERENCE.parent / "claims.yaml", help="claims and tolerances")


def main(args: argparse.Namespace) -> int:
    results = load_results(args.results)
    claims = load_claims(args.claims)
    folder = args.results / "analysis"
    make_folder(folder)
    verdicts = verdict_table(results, claims)
    values = value_verdicts(results, claims)
    content = {"claims": records(verdicts), "values": records(values)}
    _write(folder / "verdicts.json", json.dumps(content, indent=1) + "\n")
    ours = started(results.index[results.index["source"] == "ours"])
    _write(folder / "learning_speed.csv", _csv(_learning_speed(results, ours)))
    _write(folder / "density.csv", _csv(_densities(results, ours)))
    pocket = results.ours(scale="pocket", task="tool_calling", group_size=4)
    _write(folder / "pocket_format.csv", _csv(_median_format(results, pocket)))
    _write(args.results / "metrics.json", json.dumps(_metrics(results, pocket, verdicts), indent=1) + "\n")
    for view, part in verdicts.groupby("view", sort=True):
        counts = part["verdict"].value_counts().sort_index()
        print(f"{view}: " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    print(f"-> {folder}/, {args.results / 'metrics.json'}")
    return 0


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain JSON values; missing and infinite numbers become null."""
    return [{str(key): _plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value.item() if hasattr(value, "item") else value


def _learning_speed(results: Results, ours: pd.DataFrame) -> pd.DataFrame:
    tables = []
    for setting, runs in ours.groupby("setting_id", sort=True):
        for channel in ("format", "length"):
            if not results.curves(f"reward/{channel}", runs):
                continue
            table = learning_speed(results, runs, f"reward/{channel}", LEVEL)
            table = table.drop(columns=["run_ids"]).assign(per_seed=table["per_seed"].map(", ".join))
            tables.append(table.assign(setting=setting, channel=channel))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=["setting", "channel", "method"])


def _densities(results: Results, ours: pd.DataFrame) -> pd.DataFrame:
    tables = [density_summary(results, ours, channel).assign(channel=channel) for channel in CHANNELS]
    table = pd.concat(tables, ignore_index=True)
    return table[table["density_mean"].notna()] if len(table) else pd.DataFrame(columns=["run_id", "channel"])


def _median_format(results: Results, pocket: pd.DataFrame) -> pd.DataFrame:
    """Median format reward and density by step and method, pocket tool calling: what ``dvc plots`` draws."""
    tables = []
    for method, part in pocket.groupby("method", sort=True):
        columns = {}
        for metric in ("reward/format", "density/format"):
            curves = results.curves(metric, part)
            if curves:
                columns[metric.replace("/", "_")] = median_curve(curves)
        if columns:
            table = pd.DataFrame(columns).rename_axis("step").reset_index()
            tables.append(table.assign(method=method))
    empty = pd.DataFrame(columns=["step", "reward_format", "density_format", "method"])
    return pd.concat(tables, ignore_index=True) if tables else empty


def _metrics(results: Results, pocket: pd.DataFrame, verdicts: pd.DataFrame) -> dict[str, Any]:
    """A few numbers to compare between commits (``dvc metrics show``)."""
    runs = results.index[results.index["source"] == "ours"]
    content: dict[str, Any] = {"runs": {str(name): int(count) for name, count in runs["state"].value_counts().items()}}
    for view, part in verdicts.groupby("view"):
        content[f"claims_{view}"] = {str(name): int(count) for name, count in part["verdict"].value_counts().items()}
    for method, part in pocket.groupby("method", sort=True):
        table = learning_speed(results, part, "reward/format", LEVEL)
        content[f"pocket_{method}"] = {
            "runs": int(table["n"].iloc[0]),
            "reached_0.8_format": int(table["reached"].iloc[0]),
            "median_step": _plain(float(table["median"].iloc[0])),
        }
    return content


def _csv(frame: pd.DataFrame) -> str:
    return frame.to_csv(index=False, lineterminator="\n", float_format="%.10g")


def _write(path: Path, text: str) -> None:
    write_atomically(path, text.encode())

"""Turn runs/ and the published record into results/*.parquet, which tables, figures and comparisons read.

The same runs give the same bytes. What could not be read, overlaps of attempts and gaps are listed, also in
results/findings.parquet.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

import pandas as pd

from harness.analysis.collect_runs import collect_runs
from harness.analysis.frames import records
from harness.analysis.published import published
from harness.analysis.published_findings import published_findings
from harness.analysis.results import Results
from harness.analysis.schema import COLUMNS, write_table

REFERENCE = Path(__file__).resolve().parents[2] / "paper_tables" / "reference"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where to write (default: %(default)s)")
    parser.add_argument(
        "--reference", type=Path, default=REFERENCE, help="the published numbers (default: those of this repository)"
    )
    parser.add_argument("--quiet", action="store_true", help="say how many findings there are, not which")


def main(args: argparse.Namespace) -> int:
    """0: every run could be read; 1: some could not (they are listed, and in the index as damaged)."""
    results = collect(args.runs, args.reference)
    write(results, args.results)
    _report(results, args)
    unreadable = results.findings["kind"].isin(["damaged", "unreadable_line", "evaluation"])
    return 1 if (unreadable & (results.findings["source"] == "ours")).any() else 0


def collect(runs: Path, reference: Path) -> Results:
    """Our runs and the published ones in the same tables."""
    ours, theirs = collect_runs(runs), published(reference)
    return Results.of(
        pd.concat([ours.index, theirs.index]),
        pd.concat([ours.metrics, theirs.metrics]),
        pd.concat([ours.evals, theirs.evals]),
        pd.concat([ours.findings, published_findings(theirs)]),
        ours.questions,
    )


def write(results: Results, folder: Path) -> None:
    for name in COLUMNS:
        write_table(folder, name, getattr(results, name))


def _report(results: Results, args: argparse.Namespace) -> None:
    ours = results.index[results.index["source"] == "ours"]
    if not args.runs.is_dir():
        print(f"{args.runs}: no such folder, so there are no runs of ours")
    states = Counter(ours["state"])
    detail = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    theirs = results.runs(source="published")
    print(
        f"{len(ours)} runs of ours{f' ({detail})' if detail else ''}, {len(theirs)} published runs -> {args.results}/"
    )
    for source in ("ours", "published"):
        found = results.findings[results.findings["source"] == source]
        print(f"{len(found)} findings, {source}")
        if not args.quiet:
            for row in records(found):
                print(f"  {row.kind:<18} {row.run_id}: {row.detail}")

"""The paper's claims and printed numbers, judged on the published runs and on ours.

Claims: holds, fails, insufficient (n or spread too small to tell), not run, not published.
Numbers: inside or outside of the tolerance, insufficient, not run, not published.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from harness.analysis.claims import load_claims
from harness.analysis.collect import REFERENCE
from harness.analysis.frames import grouped, records
from harness.analysis.results import load_results
from harness.analysis.value_verdicts import value_verdicts
from harness.analysis.verdicts import VIEWS, verdict_table

CLAIMS = REFERENCE.parent / "claims.yaml"
_STYLES = {"holds": "green", "inside": "green", "fails": "red", "outside": "red", "insufficient": "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=Path("results"), help="collected tables (default: %(default)s)")
    parser.add_argument("--claims", type=Path, default=CLAIMS, help="claims and tolerances (default: the repository's)")
    parser.add_argument("--view", choices=VIEWS, help="only this view: published, paper or pocket (ours)")
    parser.add_argument("--values", action="store_true", help="also every printed number, not only the claims")
    parser.add_argument("--json", action="store_true", help="claims and numbers with run ids, for programs")


def main(args: argparse.Namespace) -> int:
    """0 whatever the verdicts are: a claim that fails is a result."""
    claims = load_claims(args.claims)
    results = load_results(args.results)
    judged = verdict_table(results, claims)
    judged = judged if args.view is None else judged[judged["view"] == args.view]
    numbers = value_verdicts(results, claims) if args.values or args.json else pd.DataFrame()
    if args.view is not None and len(numbers):
        numbers = numbers[numbers["view"].str.startswith(args.view)]
    if args.json:
        tolerances = {prefix: dataclasses.asdict(stated) for prefix, stated in claims.tolerances.items()}
        content = {"claims": _plain(judged), "values": _plain(numbers), "tolerances": tolerances}
        print(json.dumps(content, indent=1))
        return 0
    console = Console(highlight=False)
    for view, part in grouped(judged, "view", sort=False):
        console.print(Text(f"\nClaims, {_VIEW[str(view)]}", style="bold"))
        for row in records(part):
            console.print(Text.assemble(_word(row.verdict), f"{row.text}"), soft_wrap=True)
            agrees = {True: "estimates agree; ", False: "estimates disagree; "}.get(row.agrees, "")
            console.print(f"                  {agrees}{row.reason}", soft_wrap=True, style="dim")
        _counts(console, part)
    if len(numbers):
        console.print(Text("\nPrinted numbers", style="bold"))
        for row in records(numbers):
            value = "" if math.isnan(row.value) else f" -> {row.value:.2%} (n = {row.n})"
            label = f"{row.view}: {row.model} {row.method} {row.quantity} {row.printed:.2%}{value}"
            console.print(Text.assemble(_word(row.verdict), label, f"; {row.reason}"), soft_wrap=True)
        _counts(console, numbers)
        console.print(Text("\nTolerances for our own runs", style="bold"))
        for prefix, stated in claims.tolerances.items():
            console.print(f"  {stated.within:<6g} {prefix.rstrip('/')}: {stated.because}", soft_wrap=True)
    return 0


_VIEW = {"published": "on the published runs", "paper": "on ours, paper scale", "pocket": "on ours, pocket scale"}


def _word(verdict: str) -> tuple[str, str]:
    return f"  {verdict:<14}  ", _STYLES.get(verdict, "")


def _counts(console: Console, part: pd.DataFrame) -> None:
    counts = part["verdict"].value_counts().sort_index()
    console.print("  " + ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def _plain(frame: pd.DataFrame) -> list[dict[str, object]]:
    def tidy(value: object) -> object:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return list(value) if isinstance(value, tuple) else value

    return [{str(key): tidy(value) for key, value in row.items()} for row in frame.to_dict("records")]

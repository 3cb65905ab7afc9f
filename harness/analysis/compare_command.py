"""Compare methods on any quantity: python -m harness compare method=dara_asym against=gdpo metric=reward/format

method=NAME against=NAME[,NAME] metric=QUANTITY[,QUANTITY] and any of study= source= scale= task= model= group_size=
Quantities: reward/format (last 5 steps), reward/format@60, pocket:reward/format, bfcl_v4:accuracy/average@60,
first_step/reward/format@0.8, stable_step/reward/length@0.99, density_peak_step/format, first_cap_step/length.

Each setting (runs that differ in method and seed alone) is compared on its own. Holm's correction is over the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
from pathlib import Path

import pandas as pd

from harness.analysis.compare import Comparison, compare_all
from harness.analysis.intervals import Interval
from harness.analysis.quantities import parse
from harness.analysis.results import FILTERS, Results, load_results
from harness.errors import UserError, nearest

_KEYS = ("method", "against", "metric")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("settings", nargs="+", metavar="KEY=VALUE", help="method=, against=, metric=, and filters")
    parser.add_argument("--results", type=Path, default=Path("results"), help="collected tables (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="every number, with run ids")


def main(args: argparse.Namespace) -> int:
    wanted = _settings(args.settings)
    results = load_results(args.results)
    metrics, against = wanted.pop("metric"), wanted.pop("against")
    method = wanted.pop("method")
    if len(method) != 1:
        raise UserError(f"method={','.join(method)}: give one method; the others go into against=")
    for metric in metrics:
        parse(metric)
    runs = _runs(results, wanted, [*method, *against])
    found = compare_all(results, runs, metrics, method[0], against)
    if not found:
        raise UserError(
            f"no setting has runs of both {method[0]} and {' or '.join(against)}; see `python -m harness status`, or "
            "give source=published"
        )
    _check_known(found, results)
    if args.json:
        print(json.dumps([_plain(item) for item in found], indent=1))
    else:
        _print(found, results)
    return 0


def _check_known(found: list[Comparison], results: Results) -> None:
    """A quantity that no run has at all is a mistake, not a result."""
    for text in dict.fromkeys(item.quantity for item in found):
        if any(item.n or item.against_n for item in found if item.quantity == text):
            continue
        quantity = parse(text)
        if quantity.kind == "evaluation":
            part = results.evals["benchmark"] + ":" + results.evals["metric"]
            valid = sorted(str(name) for name in part.dropna().unique())
        else:
            valid = results.metric_names()
        raise UserError(f"metric={text}: none of these runs has it; {nearest(text.partition('@')[0], valid)}")


def _settings(arguments: list[str]) -> dict[str, list[str]]:
    wanted: dict[str, list[str]] = {}
    valid = [*_KEYS, *(key for key in FILTERS if key not in ("kind", "method", "seed"))]
    for argument in arguments:
        key, separator, value = argument.partition("=")
        if not separator or not value:
            raise UserError(f"{argument}: give KEY=VALUE, e.g. method=dara_asym")
        if key not in valid:
            raise UserError(f"{argument}: {key} is no key; {nearest(key, valid)}")
        wanted[key] = value.split(",")
    missing = [key for key in _KEYS if key not in wanted]
    if missing:
        raise UserError(f"{missing[0]}= is missing, e.g. method=dara_asym against=gdpo metric=reward/format")
    return wanted


def _runs(results: Results, filters: dict[str, list[str]], methods: list[str]) -> pd.DataFrame:
    known = [str(name) for name in results.runs()["method"].dropna().unique()]
    for name in methods:
        if name not in known:
            raise UserError(f"no run of method {name}; {nearest(name, known)}")
    chosen: dict[str, object] = dict(filters)
    if "group_size" in chosen:
        try:
            chosen["group_size"] = [int(value) for value in filters["group_size"]]
        except ValueError:
            raise UserError(f"group_size={','.join(filters['group_size'])}: give whole numbers") from None
    if "source" not in chosen:
        ours = results.runs(source="ours", method=methods)
        chosen["source"] = "ours" if len(ours) else "published"
    runs = results.runs(**chosen, method=methods)
    for key, value in filters.items():
        present = [str(item) for item in results.index[key].dropna().unique()]
        for item in value:
            if item not in present:
                raise UserError(f"{key}={item}: no run has it; {nearest(item, present)}")
    return runs


def _plain(comparison: Comparison) -> dict[str, object]:
    def tidy(value: object) -> object:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            return {key: tidy(item) for key, item in value.items()}
        return value

    return {key: tidy(value) for key, value in dataclasses.asdict(comparison).items()}


def _print(found: list[Comparison], results: Results) -> None:
    for setting in dict.fromkeys(item.setting for item in found):
        items = [item for item in found if item.setting == setting]
        print(_label(results, items[0]))
        for item in items:
            print(f"\n  {item.quantity}: {item.method} against {item.against}")
            for line in _lines(item):
                print(f"    {line}")
        print()
    if len(found) > 1:
        print(f"Holm's correction is over these {len(found)} comparisons.")


def _label(results: Results, item: Comparison) -> str:
    run_id = (item.runs or item.against_runs or ("",))[0]
    row = results.index[results.index["run_id"] == run_id]
    if row.empty:
        return f"setting {item.setting}"
    first = row.iloc[0]
    size = "" if pd.isna(first["group_size"]) else f", G {first['group_size']}"
    steps = "" if pd.isna(first["steps"]) else f", {first['steps']} steps"
    return f"{first['source']}: {first['task']}, {first['model']}{size}{steps} (setting {item.setting})"


def _lines(item: Comparison) -> list[str]:
    lines = [
        f"{item.method} {item.estimate:.4g} (n = {item.n}), {item.against} {item.against_estimate:.4g} "
        f"(n = {item.against_n})",
        f"difference {interval_text(item.difference)}",
        f"p = {item.p:.4g} ({item.test}; the smallest possible here is {item.smallest_p:.4g}), Holm {item.holm_p:.4g}",
        f"effect size {interval_text(item.effect)}",
        "seeds for 80 % power at the observed effect: " + (str(item.seeds_needed) if item.seeds_needed else "unknown"),
    ]
    if item.over_questions is not None:
        note = f"; {item.over_questions.note}" if item.over_questions.note else ""
        lines.insert(2, f"over {item.over_questions.n:,} questions {interval_text(item.over_questions)}{note}")
    if item.note and item.note != item.difference.note:
        lines.append(item.note)
    lines += [f"without a value: {text}" for text in item.without]
    return lines


def interval_text(interval: Interval) -> str:
    """``0.12 [0.05, 0.19] (95 %, Welch t, 7.3 df)`` or the reason why there is no interval."""
    if not interval.known:
        return f"{interval.estimate:.4g} ({interval.note or 'no interval'})"
    bounds = f"[{interval.low:.4g}, {interval.high:.4g}]"
    return f"{interval.estimate:.4g} {bounds} ({interval.level:.0%}, {interval.method})"

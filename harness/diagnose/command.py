"""Which reward starves? `diagnose FILES...` reads the rollouts of any training with several rewards and measures them.

Read are JSONL, CSV and parquet with one response a row: the dumps of this project (runs/<id>/rollouts), of verl
(trainer.rollout_data_dir), the completions that TRL logs, or any table with a group or prompt and numeric rewards;
JSONL and CSV also as .gz or .zst. A folder means the files in it. Printed is what was taken for what, then per step and
channel the mean, density, energy and kinds of groups without variation, then what every aggregation method would have
made of the same batches, and at the end the findings in words.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import math
from pathlib import Path

from harness.diagnose.columns import FORMATS, Choice
from harness.diagnose.rows import DUPLICATES
from harness.errors import UserError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="files or folders")
    parser.add_argument("--format", choices=FORMATS, default="auto", help="default: auto, by the names of the columns")
    parser.add_argument("--group", metavar="COLUMN", help="label of a response's group (a uid, or the prompt)")
    parser.add_argument("--step", metavar="COLUMN", help="training step")
    parser.add_argument("--channels", metavar="A,B", type=_names, help="reward columns")
    parser.add_argument("--length", metavar="COLUMN", help="valid tokens of a response")
    parser.add_argument(
        "--bounds",
        metavar="CHANNEL=LOW,HIGH",
        action="append",
        default=[],
        help="lowest and highest reward of a channel, once for each; saw, saw_grpo and sa_mrpo need them",
    )
    parser.add_argument(
        "--weights",
        metavar="CHANNEL=W",
        action="append",
        default=[],
        help="weight of a channel in static_sym and static_asym, once for each (others 1)",
    )
    parser.add_argument("--methods", metavar="A,B", type=_names, help="replay these only; also FILE.py with your own")
    parser.add_argument("--normalization", choices=("response", "token"), default="response")
    parser.add_argument(
        "--duplicates",
        choices=DUPLICATES,
        default="auto",
        help="a step that is there twice: auto (the last attempt counts, shards are joined), last, merge",
    )
    parser.add_argument("--all-steps", action="store_true", help="print every step, not a selection")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every number, a row per step and channel")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with plots, complete in itself")


def main(args: argparse.Namespace) -> int:
    from harness.diagnose import text
    from harness.diagnose.reading import read_log
    from harness.diagnose.report import diagnose

    choice = Choice(args.format, args.group, args.step, args.channels, args.length)
    bounds = {name: _pair(name, value) for name, value in _assigned("--bounds", args.bounds)}
    weights = {name: _weight(name, value) for name, value in _assigned("--weights", args.weights)}
    log = read_log(args.files, choice, args.duplicates)
    for name in weights:
        if name not in log.columns.channels:
            raise UserError(f"--weights {name}: not a channel of the log; channels: {', '.join(log.columns.channels)}")
    found = diagnose(log, bounds=bounds, weights=weights, methods=args.methods, normalization=args.normalization)
    for line in text.lines(found, all_steps=args.all_steps):
        print(line)
    if args.csv:
        _write_csv(args.csv, found)
        print(f"\nevery number: {args.csv}")
    if args.html:
        from harness.diagnose.page import page

        _write(args.html, page(found))
        print(f"\npage: {args.html}")
    return 0


def _names(value: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    if not names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{value!r} is no list of different names")
    return names


def _assigned(option: str, values: list[str]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for value in values:
        name, equals, rest = value.rpartition("=")
        if not equals or not name:
            raise UserError(
                f"{option} {value}: write CHANNEL=VALUE, as in {option} format=0" + ",1" * (option == "--bounds")
            )
        if name in dict(pairs):
            raise UserError(f"{option} {name}: given twice")
        pairs.append((name, rest))
    return pairs


def _pair(name: str, value: str) -> tuple[float, float]:
    parts = value.split(",")
    try:
        low, high = (float(part) for part in parts)
    except ValueError:
        raise UserError(f"--bounds {name}={value}: write two numbers, as in --bounds {name}=0,1") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UserError(f"--bounds {name}={value}: the first number must be below the second, both finite")
    return low, high


def _weight(name: str, value: str) -> float:
    try:
        weight = float(value)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight >= 0):
        raise UserError(f"--weights {name}={value}: write a number of at least 0")
    return weight


def _write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def _write_csv(path: Path, found) -> None:  # type: ignore[no-untyped-def]
    fields = [field.name for field in dataclasses.fields(next(iter(found.steps[0].channels.values())))]
    try:
        with open(path, "w", encoding="utf-8", errors="replace", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "channel", "responses", "groups", "conflict", "sum_filter_hides", *fields])
            for step in found.steps:
                for channel, values in step.channels.items():
                    row = [step.step, channel, step.responses, step.groups, step.conflict, step.hidden]
                    writer.writerow([*row, *(getattr(values, name) for name in fields)])
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error

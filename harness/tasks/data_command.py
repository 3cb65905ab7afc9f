"""Fetch, verify and list data sets: `data fetch|verify|list [NAME ...] [data.root=FOLDER]`.

fetch   download (or take files placed by hand), check, convert to verl's Parquet schema, record in FOLDER/lock.json
verify  recompute every checksum and row count of what is there; exit code 1 when something is damaged or missing
list    every data set: source, revision, rows, state, licence, citation

FOLDER is data.root, else the folder `data` in the harness's cache (DARA_CACHE). HF_HOME, HF_ENDPOINT, HF_TOKEN and
HF_HUB_OFFLINE work as for every client of the hub.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.errors import UserError, nearest
from harness.tasks.datasets import DATASETS, Dataset
from harness.tasks.library import Library, dataset
from harness.tasks.places import data_root

_KEY = "data.root"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("fetch", "verify", "list"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="data sets (default: all) and data.root=FOLDER")


def main(args: argparse.Namespace) -> int:
    names, root = _split(args.names)
    library = Library(data_root(root))
    wanted = [dataset(name) for name in names] or list(DATASETS.values())
    if args.action == "list":
        for item in wanted:
            print(_describe(item, library), end="\n\n")
        return 0
    return _fetch(wanted, library) if args.action == "fetch" else _verify(wanted, library, bool(names))


def _split(words: list[str]) -> tuple[list[str], str | None]:
    names, root = [], None
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            names.append(word)
        elif key == _KEY and value:
            root = value
        else:
            raise UserError(f"unknown setting {word!r}: {nearest(key, [_KEY])}")
    return names, root


def _fetch(wanted: list[Dataset], library: Library) -> int:
    """Each in turn; one that fails does not stop the others, and the last line says so."""
    failed = []
    for item in wanted:
        try:
            print(library.fetch(item.name), flush=True)
            print(f"  licence: {item.licence}\n  cite: {item.citation}", flush=True)
        except UserError as error:
            if len(wanted) == 1:
                raise
            failed.append(item.name)
            print(f"error: {error}", flush=True)
    if failed:
        raise UserError(f"not fetched: {', '.join(failed)}; the reasons are above")
    return 0


def _verify(wanted: list[Dataset], library: Library, named: bool) -> int:
    findings = [library.verify(item.name) for item in wanted]
    for finding in findings:
        print(f"{finding.name}: {finding.state}")
        for problem in finding.problems:
            print(f"  {problem}")
    if all(finding.state == "missing" for finding in findings):
        raise UserError(f"no data below {library.root}: fetch it with `python -m harness data fetch`")
    bad = [finding for finding in findings if finding.state == "damaged" or (named and finding.state == "missing")]
    return 1 if bad else 0


def _describe(item: Dataset, library: Library) -> str:
    entry = library.locked(item.name)
    splits = []
    for file in item.files:
        rows = f"{file.rows:,}" if file.rows is not None else "any number of"
        splits.append(f"{file.split} {rows} rows")
    if item.source.revision:
        revision = f"{item.source.revision} (pinned)"
    elif entry and entry["revision"]:
        revision = f"{entry['revision']} (locked at the first fetch)"
    else:
        revision = "unknown until fetched, then locked"
    lines = [
        f"{item.name}: {item.title}",
        f"  source    {item.source.kind} {item.source.name}",
        f"  revision  {revision}",
        f"  splits    {', '.join(splits)}",
        f"  state     {_state(entry, library.root)}",
        f"  licence   {item.licence}",
        f"  cite      {item.citation}",
    ]
    if item.note:
        lines.append(f"  note      {item.note}")
    return "\n".join(lines)


def _state(entry: dict | None, root: Path) -> str:
    if entry is None:
        return f"not in {root}"
    counts = ", ".join(f"{count:,} {split}" for split, count in entry["rows"].items())
    return f"in {root}: {counts} rows from {entry['origin']}"

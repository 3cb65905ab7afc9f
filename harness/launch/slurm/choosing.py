"""Runs of a store by name, pattern or state: what ``cancel``, ``logs`` and ``requeue`` have in common."""

from __future__ import annotations

import argparse
import fnmatch
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from harness.errors import UserError, nearest
from harness.store import Run, RunStore
from harness.store.status import State
from harness.store.status_sources import statuses


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="+", help="run id, or a pattern such as '*-gdpo-*' ('*': all)")
    parser.add_argument("--state", choices=get_args(State), action="append", help="only runs in this state")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")


def chosen(args: argparse.Namespace) -> list[Run]:
    """The runs that any pattern matches, in order. Raises :class:`UserError` for a pattern that matches none."""
    store = RunStore(args.runs.absolute())
    runs = {run.run_id: run for run in store.runs()}
    names = _matching(args.run, list(runs), store)
    found = [runs[name] for name in runs if name in names]
    if args.state:
        states = statuses(found)
        found = [run for run in found if states[run.run_id].state in args.state]
    return found


def _matching(patterns: Sequence[str], names: Sequence[str], store: RunStore) -> set[str]:
    matched: set[str] = set()
    for pattern in patterns:
        hits = fnmatch.filter(names, pattern)
        if not hits:
            raise UserError(f"{store.root} has no run {pattern!r}: {nearest(pattern, names)}")
        matched.update(hits)
    return matched

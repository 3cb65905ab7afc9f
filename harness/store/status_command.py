"""Every run of a store: its state and why it is in that state.

States: new (nobody started it), queued (a scheduler has it), held (a scheduler keeps it back until it is released),
running (a living process holds its lock, or its job has just started), interrupted
(continues with the same command), failed (wants retry=true), done (all steps and the final evaluation are stored),
damaged (a file was edited or is unreadable).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.store.run_store import RunStore
from harness.store.status import RunStatus
from harness.store.status_sources import statuses

_STYLES = {"done": "green", "running": "cyan", "failed": "red", "damaged": "red", "interrupted": "yellow"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object: run id -> state, reason, step, steps")
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=10.0,
        metavar="SECONDS",
        help="again every so many seconds (10), until no run waits or runs",
    )


def main(args: argparse.Namespace) -> int:
    """0: no run is failed or damaged; 1: some are."""
    found = statuses(RunStore(args.runs).runs())
    while args.watch is not None and any(status.state in ("queued", "running") for status in found.values()):
        if sys.stdout.isatty():
            print("\033[2J\033[H", end="")
        _print(found, args.runs)
        time.sleep(max(1.0, args.watch))
        found = statuses(RunStore(args.runs).runs())
    if args.json:
        print(json.dumps({name: dataclasses.asdict(status) for name, status in found.items()}, indent=1))
    elif not found:
        print(f"no runs in {args.runs}")
    else:
        _print(found, args.runs)
    return 1 if any(status.state in ("failed", "damaged") for status in found.values()) else 0


def _print(found: dict[str, RunStatus], root: Path) -> None:
    console = Console(highlight=False)
    prefix = common_prefix(list(found))
    console.print(Text(f"{root}{os.sep}{prefix}...:" if prefix else f"{root}:"), soft_wrap=True)
    width = max(len(name) - len(prefix) for name in found)
    for name, status in found.items():
        line = Text.assemble(
            f"  {name.removeprefix(prefix):<{width}}  ",
            (f"{status.state:<11}", _STYLES.get(status.state, "")),
            f"  {status.step:>5}/{status.steps:<5}  {status.reason}",
        )
        console.print(line, soft_wrap=True)
    states = [status.state for status in found.values()]
    summary = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    console.print(Text(f"{len(states)} runs: {summary}"), soft_wrap=True)


def common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, cut after a ``-``; empty for fewer than two names."""
    if len(names) < 2:
        return ""
    prefix = os.path.commonprefix(list(names))
    return prefix[: prefix.rfind("-") + 1]

"""Every run of a store: its state and why it is in that state.

States: new (nobody started it), queued (a scheduler has it), held (a scheduler keeps it back until it is released),
running (a living process holds its lock, or its job has just started), interrupted
(continues with the same command), failed (wants retry=true), done (all steps and the final evaluation are stored),
damaged (a file was edited or is unreadable).

Evaluations that a run was asked for (evaluate_at) follow below the runs: done, running, queued, held, failed (wants
retry=true), missing (nobody makes it: the same command does), waiting (for its training), blocked (its training
failed).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from harness.store.run_store import RunStore
from harness.store.status import RunStatus
from harness.store.status_sources import statuses

if TYPE_CHECKING:
    from harness.launch.wanted_evaluations import EvaluationStatus

Evaluations = Mapping[str, Mapping[str, "EvaluationStatus"]]
"""Run id -> name of the results -> status."""

_STYLES = {
    "done": "green",
    "running": "cyan",
    "failed": "red",
    "damaged": "red",
    "blocked": "red",
    "interrupted": "yellow",
    "missing": "yellow",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")
    parser.add_argument(
        "--json", action="store_true", help="one JSON object: run id -> state, reason, step, steps, evaluations"
    )
    parser.add_argument(
        "--watch",
        type=float,
        nargs="?",
        const=10.0,
        metavar="SECONDS",
        help="again every so many seconds (10), until no run waits or runs",
    )


def main(args: argparse.Namespace) -> int:
    """0: no run is failed or damaged and no evaluation failed; 1: some are."""
    found, evaluations = _read(args.runs)
    while args.watch is not None and _going_on(found, evaluations):
        if sys.stdout.isatty():
            print("\033[2J\033[H", end="")
        _print(found, evaluations, args.runs)
        time.sleep(max(1.0, args.watch))
        found, evaluations = _read(args.runs)
    if args.json:
        print(json.dumps({name: _plain(status, evaluations.get(name)) for name, status in found.items()}, indent=1))
    elif not found:
        print(f"no runs in {args.runs}")
    else:
        _print(found, evaluations, args.runs)
    return 1 if _states(found, evaluations) & {"failed", "damaged"} else 0


def _read(root: Path) -> tuple[dict[str, RunStatus], Evaluations]:
    from harness.launch.evaluation_status import evaluation_statuses

    runs = RunStore(root).runs()
    found = statuses(runs)
    return found, evaluation_statuses(runs, found)


def _states(found: Mapping[str, RunStatus], evaluations: Evaluations) -> set[str]:
    states: set[str] = {status.state for status in found.values()}
    return states | {status.state for items in evaluations.values() for status in items.values()}


def _going_on(found: Mapping[str, RunStatus], evaluations: Evaluations) -> bool:
    return bool(_states(found, evaluations) & {"queued", "running"})


def _plain(status: RunStatus, evaluations: Mapping[str, EvaluationStatus] | None) -> dict[str, Any]:
    content = dataclasses.asdict(status)
    if evaluations:
        content["evaluations"] = {name: dataclasses.asdict(item) for name, item in evaluations.items()}
    return content


def _print(found: Mapping[str, RunStatus], evaluations: Evaluations, root: Path) -> None:
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
    if evaluations:
        _print_evaluations(evaluations, prefix, width, console)


def _print_evaluations(evaluations: Evaluations, prefix: str, width: int, console: Console) -> None:
    """Those that are not done, a line each; then the counts."""
    flat = [(name, benchmark, item) for name, items in evaluations.items() for benchmark, item in items.items()]
    for name, benchmark, status in flat:
        if status.state != "done":
            line = Text.assemble(
                f"  {name.removeprefix(prefix):<{width}}  ",
                (f"{status.state:<11}", _STYLES.get(status.state, "")),
                f"  {benchmark}: {status.reason}",
            )
            console.print(line, soft_wrap=True)
    states = [status.state for _, _, status in flat]
    summary = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    stored, wanted = sum(len(item.stored) for *_, item in flat), sum(len(item.steps) for *_, item in flat)
    console.print(Text(f"{len(flat)} evaluations, {stored} of {wanted} checkpoints stored: {summary}"), soft_wrap=True)


def common_prefix(names: Sequence[str]) -> str:
    """What all names begin with, cut after a ``-``; empty for fewer than two names."""
    if len(names) < 2:
        return ""
    prefix = os.path.commonprefix(list(names))
    return prefix[: prefix.rfind("-") + 1]

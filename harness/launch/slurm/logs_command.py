"""The log of runs: what the training wrote, and what its SLURM job said besides (set-up, SLURM's own messages)."""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from pathlib import Path

from harness.launch.slurm.choosing import add_arguments, chosen
from harness.launch.slurm.submissions import last_task_of, submissions

_POLL_SECONDS = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)
    parser.add_argument("-n", "--lines", type=int, default=20, help="last lines of each file (default: %(default)s)")
    parser.add_argument("-f", "--follow", action="store_true", help="go on with what is written; Ctrl-C ends it")


def main(args: argparse.Namespace) -> int:
    runs = chosen(args)
    jobs = last_task_of(submissions(args.runs.absolute()))
    paths: list[Path] = []
    for run in runs:
        place = jobs.get(run.run_id)
        output = place[0].output(place[1]) if place else None
        found = [path for path in (output, run.log_path) if path is not None and path.exists()]
        paths += found
        if not found:
            print(f"{run.run_id}: not started, no log")
    for path in paths:
        print(f"==> {path} <==")
        with open(path, encoding="utf-8", errors="replace") as file:
            sys.stdout.writelines(deque(file, maxlen=max(0, args.lines)))
    if args.follow:
        _follow(paths)
    return 0


def _follow(paths: list[Path]) -> None:
    places = {path: path.stat().st_size for path in paths}
    last: Path | None = None
    while True:
        for path, place in places.items():
            with open(path, "rb") as file:
                file.seek(place)
                text = file.read()
            if text:
                if path != last and len(paths) > 1:
                    print(f"==> {path} <==")
                last, places[path] = path, place + len(text)
                print(text.decode(errors="replace"), end="", flush=True)
        time.sleep(_POLL_SECONDS)

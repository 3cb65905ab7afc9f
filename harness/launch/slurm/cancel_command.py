"""Cancel the SLURM jobs of runs: training and evaluation, waiting or running.

A run that trains saves first, and stays as it is until it is submitted again. Runs without a job are left alone.
"""

from __future__ import annotations

import argparse

from harness.launch.slurm.choosing import add_arguments, chosen
from harness.launch.slurm.queue import run as call
from harness.launch.slurm.states import placed


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """0, also when nothing had to be cancelled."""
    root, names = args.runs.absolute(), {run.run_id for run in chosen(args)}
    places = [
        place
        for kind in ("train", "evaluate")
        for place in placed(root, kind).values()
        if place.task.run_id in names and place.live and place.job is not None
    ]
    if places:
        call("scancel", *(place.job.job_id for place in places if place.job is not None))
    for place in places:
        print(f"cancelled job {place.job_id}: {place.task.job_name}")
    print(f"{len(places)} jobs cancelled" if places else "no jobs to cancel")
    return 0

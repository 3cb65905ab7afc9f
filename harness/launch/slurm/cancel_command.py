"""Cancel the SLURM jobs of runs: training and evaluation, waiting or running.

A run that trains saves first, and stays as it is until it is submitted again. Runs without a job are left alone. The
job that collects the results of all runs goes with the last of their jobs.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence

from harness.launch.slurm.choosing import add_arguments, chosen
from harness.launch.slurm.queue import run as call
from harness.launch.slurm.states import Placed, live_places
from harness.store import RunStore


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """0, also when nothing had to be cancelled."""
    root, names = args.runs.absolute(), {run.run_id for run in chosen(args)}
    everything = len(names) == len(RunStore(root).runs())
    places = to_cancel(live_places(root), names, everything=everything)
    if places:
        call("scancel", *(place.job.job_id for place in places if place.job is not None))
    for place in places:
        print(f"cancelled job {place.job_id}: {place.task.job_name}")
    print(f"{len(places)} jobs cancelled" if places else "no jobs to cancel")
    return 0


def to_cancel(live: Sequence[Placed], names: Collection[str], *, everything: bool) -> list[Placed]:
    """Those of the ``live`` jobs of a store that go when its runs ``names`` are cancelled; ``everything``: these are
    all runs of the store.

    The collect job goes first, for it starts as soon as the others have ended. It stays while another run has a job,
    and when there was none to cancel, unless everything goes.
    """
    of_runs = [place for place in live if place.task.kind != "collect"]
    found = [place for place in of_runs if place.task.run_id in names]
    last = len(found) == len(of_runs) and (everything or bool(found))
    return [place for place in live if place.task.kind == "collect" and last] + found

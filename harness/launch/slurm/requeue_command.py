"""Put SLURM jobs of runs back into the queue, or let waiting ones go.

held       released
running    saved and requeued (e.g. to leave a bad node)
waiting    told to start as soon as there is room, if it waits for a time after a requeue
"""

from __future__ import annotations

import argparse

from harness.launch.slurm.choosing import add_arguments, chosen
from harness.launch.slurm.queue import QueuedJob
from harness.launch.slurm.queue import run as call
from harness.launch.slurm.states import placed


def configure(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser)


def main(args: argparse.Namespace) -> int:
    """0: every chosen run had a job; 1: some had none (they are submitted by the command that started the study)."""
    root = args.runs.absolute()
    places, missing = placed(root), 0
    for run in chosen(args):
        place = places.get(run.run_id)
        if place is None or place.job is None or not place.live:
            print(f"no job: {run.run_id}; submit it again with the command of its study")
            missing += 1
        else:
            print(f"{_requeue(place.job)} job {place.job_id}: {run.run_id}")
    return 1 if missing else 0


def _requeue(job: QueuedJob) -> str:
    if job.held:
        call("scontrol", "release", job.job_id)
        return "released"
    if job.state in ("RUNNING", "SUSPENDED"):
        call("scontrol", "requeue", job.job_id)
        return "requeued"
    if job.reason == "BeginTime":
        call("scontrol", "update", f"JobId={job.job_id}", "StartTime=now")
        return "no longer delayed:"
    return f"left waiting ({job.reason}):"

"""Runs a matrix as SLURM jobs: submits what is still missing and returns.

launcher      which runs become which job arrays, under one lock per store
options       conf/hydra/launcher/slurm.yaml, checked
executor      submitit's SLURM executor: the sbatch script and its submission
submissions   what was submitted, written before sbatch is called; what the jobs say of themselves
snapshot      the code a job runs, frozen at submission
job           the process inside a job: starts the worker, saves and requeues before the time limit
ray_cluster   Ray over the nodes of one job
queue, states what SLURM says, and what that means for a run
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.config import RunConfig
from harness.store import RunStore


def launch(runs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any], retry: bool) -> int:
    """Submit the runs that are neither done nor under way. 0: submitted or nothing to do; 1: some failed before and
    wait for ``retry=true``. Raises :class:`~harness.errors.UserError` when SLURM refuses or does not answer."""
    from harness.launch.slurm.launcher import launch as submit

    return submit(runs, store=store, options=options, retry=retry)


def dry_run(runs: Sequence[RunConfig], *, store: RunStore, options: Mapping[str, Any]) -> int:
    """Write and print the sbatch scripts that :func:`launch` would submit; submits nothing, needs no SLURM."""
    from harness.launch.slurm.launcher import dry_run as write_scripts

    return write_scripts(runs, store=store, options=options)

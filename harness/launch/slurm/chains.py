"""What comes after training: an evaluation of each run, then a job that collects the results.

An evaluation waits for its own training job (``aftercorr``: the task with the same number of the training's array ended
well). Runs that are done are evaluated at once; a result that is stored is not made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console

from harness.config import RunConfig, run_id
from harness.launch.slurm.options import Resources, resources
from harness.launch.slurm.queue import max_array_size
from harness.launch.slurm.states import Placed, placed
from harness.launch.slurm.submissions import Submission, Task
from harness.store import Run, RunStore

if TYPE_CHECKING:
    from harness.launch.slurm.launcher import Submitter


def submit(
    configs: Sequence[RunConfig],
    store: RunStore,
    submitter: Submitter,
    console: Console,
    *,
    say: Callable[[Submission, Console], None],
) -> None:
    """Submit the evaluations and the collect job that ``options`` ask for, unless they are done or in the queue."""
    options = submitter.options
    if not options.evaluate and not options.collect:
        return
    from harness.launch.slurm.launcher import Batch

    trainings, limit = placed(store.root), max_array_size()
    waiting_for: list[str] = sorted({place.submission.job_id or "" for place in trainings.values() if place.live})
    for entry in options.evaluate:
        known = placed(store.root, "evaluate")
        for (source, wanted), tasks in _evaluations(configs, store, entry, trainings, known, submitter).items():
            parts = [tasks] if source else _split(tasks, limit)
            for part in parts:
                dependency = None
                if source:
                    kind = "aftercorr" if "_" in source else "afterok"
                    dependency = f"{kind}:{source.rstrip('_')}"
                submission = submitter.submit(Batch(part, wanted, dependency))
                say(submission, console)
                waiting_for.append(submission.job_id or "")
        waiting_for += sorted({place.submission.job_id or "" for place in known.values() if place.live})
    jobs = sorted({job for job in waiting_for if job})
    if options.collect and not any(place.live for place in placed(store.root, "collect").values()):
        task = Task("collect", "collect", None, ("collect", "--runs", str(store.root)))
        dependency = f"afterany:{':'.join(jobs)}" if jobs else None
        say(submitter.submit(Batch({0: task}, Resources(1, 0), dependency)), console)


def _evaluations(
    configs: Sequence[RunConfig],
    store: RunStore,
    entry: Mapping[str, Any],
    trainings: Mapping[str, Placed],
    known: Mapping[str, Placed],
    submitter: Submitter,
) -> dict[tuple[str, Resources], dict[int, Task]]:
    """Tasks by what they wait for: ``123_`` (an array, index by index), ``123`` (one job) or nothing."""
    groups: dict[tuple[str, Resources], dict[int, Task]] = defaultdict(dict)
    benchmark = entry["benchmark"]
    for config in configs:
        name = run_id(config)
        run = Run(store.root / name)
        if not run.path.is_dir() or config.training.steps in run.evaluations.steps(benchmark):
            continue
        values = {"{run}": name, "{runs}": str(store.root)}
        command = tuple(_filled(argument, values) for argument in entry["command"])
        task = Task("evaluate", name, benchmark, command)
        if task.job_name in known and known[task.job_name].live:
            continue
        wanted = resources(submitter.options, config)
        place = trainings.get(name)
        if place is not None and place.live and run.status().state != "done":
            array = "_" if len(place.submission.tasks) > 1 else ""
            job = place.submission.job_id or (place.job.array if place.job else "")
            groups[f"{job}{array}", wanted][place.index] = task
        elif run.status().state == "done":
            group = groups["", wanted]
            group[len(group)] = task
    return groups


def _filled(argument: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        argument = argument.replace(name, value)
    return argument


def _split(tasks: Mapping[int, Task], size: int) -> list[dict[int, Task]]:
    items = list(tasks.values())
    return [dict(enumerate(items[first : first + size])) for first in range(0, len(items), size)]

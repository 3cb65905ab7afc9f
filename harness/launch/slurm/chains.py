"""What comes after training: the evaluations that runs ask for, then a job that collects the results.

An evaluation is a job of its own, one for each run and benchmark. It waits for its training job to end well
(``aftercorr``: the task with the same number of the training's array; ``afterok`` for a single job). Runs that are done
are evaluated at once; what is stored is not made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from harness.config import RunConfig, run_id
from harness.launch.evaluation_tasks import EvaluationTask, describe, left_to_do
from harness.launch.selection import Planned
from harness.launch.slurm.batch import Batch
from harness.launch.slurm.options import Resources, SlurmOptions, after_training, evaluation_resources
from harness.launch.slurm.queue import max_array_size
from harness.launch.slurm.queue import run as call
from harness.launch.slurm.states import Placed, evaluation_states, placed_by_kind
from harness.launch.slurm.submissions import Kind, Submission, Task
from harness.launch.wanted_evaluations import stored_steps, wanted_of
from harness.store import Run, RunStore

_LISTED = 10
_COLLECT = "collect"


@dataclass
class Evaluations:
    """``groups``: tasks to submit, by benchmark, resources and the dependency that they share. ``dead``: jobs in the
    queue that wait for a training job that is no longer the run's. ``failed``: names with their error. ``later``: how
    many wait for a training that is not in the queue."""

    groups: dict[tuple[str, Resources, str | None], dict[int, Task]] = field(default_factory=lambda: defaultdict(dict))
    items: list[EvaluationTask] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    later: int = 0

    def add(self, item: EvaluationTask, dependency: str | None, index: int | None, wanted: Resources) -> None:
        group = self.groups[item.wanted.name, wanted, dependency]
        task = Task("evaluate", item.run.run_id, item.wanted.name, tuple(item.arguments()))
        group[len(group) if index is None else index] = task
        self.items.append(item)

    def batches(self, options: SlurmOptions, limit: int) -> list[Batch]:
        """One call of sbatch each; ``limit``: tasks in an array (one that follows an array is no larger than that)."""
        options = after_training(options, options.evaluation)
        found = []
        for (_, wanted, dependency), tasks in self.groups.items():
            parts = [tasks] if dependency else split(list(tasks.values()), limit)
            found += [Batch(part, wanted, dependency, options) for part in parts]
        return found


def submit(
    configs: Sequence[RunConfig],
    done: Collection[str],
    store: RunStore,
    options: SlurmOptions,
    send: Callable[[Batch], Submission],
    console: Console,
    *,
    retry: bool,
    submitted: bool,
) -> bool:
    """Send the evaluations of ``configs`` and the collect job, unless they are stored or in the queue.

    ``done``: ids of the runs that are trained; ``submitted``: whether trainings were just sent. True: some evaluations
    failed before and wait for ``retry=true``.
    """
    asking = [config for config in configs if config.evaluation.at]
    if not asking and not options.collect:
        return False
    places = placed_by_kind(store.root)
    evaluations = find(asking, done, store, options, places, retry=retry) if asking else Evaluations()
    if evaluations.dead:
        call("scancel", *evaluations.dead)
    batches = evaluations.batches(options, max_array_size()) if evaluations.groups else []
    sent = [send(batch) for batch in batches]
    _say(evaluations, console)
    if options.collect:
        _submit_collect(store, options, send, places, sent, submitted or bool(sent), evaluations.dead)
    return bool(evaluations.failed)


def find(
    configs: Sequence[RunConfig],
    done: Collection[str],
    store: RunStore,
    options: SlurmOptions,
    places: Mapping[Kind, Mapping[str, Placed]],
    *,
    retry: bool,
) -> Evaluations:
    """What is to be submitted. Notes in each run what was asked of it."""
    found, trainings, known = Evaluations(), places["train"], places["evaluate"]
    lost = {} if retry else _failed_in_slurm(configs, store, known)
    for config in configs:
        name = run_id(config)
        run = Run(store.root / name)
        if not run.path.is_dir():
            continue
        left = left_to_do(run, config, retry=retry)
        found.failed += [(item.name, error) for item, error in left.failed]
        training = trainings.get(name)
        waits = name not in done
        dependency = _dependency(training) if waits and training is not None and training.live else None
        for item in left.tasks:
            place = known.get(item.name)
            if place is not None and place.job is not None and place.live:
                if not waits or _waits_for(place, dependency):
                    continue
                found.dead.append(place.job.job_id)
            if item.name in lost:
                found.failed.append((item.name, lost[item.name]))
            elif not waits:
                found.add(item, None, None, evaluation_resources(options, item.wanted.options))
            elif dependency is not None and training is not None:
                found.add(item, dependency, training.index, evaluation_resources(options, item.wanted.options))
            else:
                found.later += 1
    return found


def planned(
    runs: Sequence[Planned], batches: Sequence[Batch], store: RunStore, options: SlurmOptions, limit: int
) -> list[Batch]:
    """What a submission of ``batches`` would be followed by, ``JOB`` in the place of each id; writes nothing."""
    sources = {
        task.run_id: (number, index, len(batch.tasks) > 1)
        for number, batch in enumerate(batches, start=1)
        for index, task in batch.tasks.items()
    }
    found = Evaluations()
    for item in runs:
        run = Run(store.root / item.run_id)
        for wanted in wanted_of(item.config):
            stored, _ = stored_steps(run, wanted)
            steps = tuple(step for step in wanted.steps if step not in stored)
            if not steps:
                continue
            task, needs = (
                EvaluationTask(run, replace(wanted, steps=steps)),
                evaluation_resources(options, wanted.options),
            )
            if item.status.state == "done":
                found.add(task, None, None, needs)
            elif item.run_id in sources:
                number, index, array = sources[item.run_id]
                found.add(task, f"{'aftercorr' if array else 'afterok'}:JOB{number}", index, needs)
    following = found.batches(options, limit)
    if options.collect:
        jobs = [f"JOB{number}" for number in range(1, len(batches) + len(following) + 1)]
        following.append(_collect(store, options, jobs))
    return following


def split(tasks: Sequence[Task], size: int) -> list[dict[int, Task]]:
    return [dict(enumerate(tasks[first : first + size])) for first in range(0, len(tasks), size)]


def _dependency(training: Placed) -> str:
    return f"{'aftercorr' if len(training.submission.tasks) > 1 else 'afterok'}:{training.array}"


def _waits_for(place: Placed, dependency: str | None) -> bool:
    """Whether a job in the queue runs, or waits for the training job that the run has now."""
    if place.job is None or place.hopeless:
        return False
    return place.job.state != "PENDING" or place.submission.settings.get("dependency") == dependency


def _failed_in_slurm(configs: Sequence[RunConfig], store: RunStore, known: Mapping[str, Placed]) -> dict[str, str]:
    """Evaluations whose job ended so that it would only end so again (out of memory, set-up), by their name."""
    gone = {place.task.run_id for place in known.values() if not place.live}
    runs = [Run(store.root / name) for name in map(run_id, configs) if name in gone]
    states = evaluation_states(runs) if runs else {}
    return {
        f"{name}-{benchmark}": state.reason for (name, benchmark), state in states.items() if state.state == "failed"
    }


def _submit_collect(
    store: RunStore,
    options: SlurmOptions,
    send: Callable[[Batch], Submission],
    places: Mapping[Kind, Mapping[str, Placed]],
    sent: Sequence[Submission],
    anything_new: bool,
    dead: Collection[str],
) -> None:
    """A collect job behind everything that waits or runs; one that waits for less is replaced."""
    last = places["collect"].get(_COLLECT)
    live = [place for kind in ("train", "evaluate") for place in places[kind].values() if place.live]
    jobs = {place.array for place in live if place.job is None or place.job.job_id not in dead}
    jobs |= {submission.job_id for submission in sent}
    if last is not None and last.job is not None and last.live:
        if not anything_new:
            return
        if last.job.state == "PENDING":
            call("scancel", last.job.job_id)
        else:
            jobs.add(last.array)
    elif last is not None and not anything_new and not jobs and _ended_well(last):
        return
    send(_collect(store, options, sorted(job for job in jobs if job)))


def _collect(store: RunStore, options: SlurmOptions, jobs: Sequence[str]) -> Batch:
    command = ("collect", "--runs", str(store.root), "--results", str(Path.cwd() / "results"))
    dependency = f"afterany:{':'.join(jobs)}" if jobs else None
    wanted = Resources(1, options.collecting.gpus_per_node or 0)
    task = Task("collect", _COLLECT, None, command)
    return Batch({0: task}, wanted, dependency, after_training(options, options.collecting))


def _ended_well(place: Placed) -> bool:
    events = place.submission.events(place.index)
    return bool(events) and events[-1]["event"] == "ended" and events[-1].get("exit_code") == 0


def _say(evaluations: Evaluations, console: Console) -> None:
    if evaluations.items:
        console.print(f"for {describe(evaluations.items)}", soft_wrap=True, markup=False)
    for name, error in evaluations.failed[:_LISTED]:
        console.print(f"failed: {name}: {error}; retry=true evaluates it again", soft_wrap=True, markup=False)
    if len(evaluations.failed) > _LISTED:
        console.print(f"... and {len(evaluations.failed) - _LISTED} more evaluations that failed")
    if evaluations.later:
        console.print(f"{evaluations.later} evaluations wait for trainings that are not in the queue")

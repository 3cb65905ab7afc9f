"""What SLURM's words mean for a run: the source of ``python -m harness status`` for runs that were submitted.

Four witnesses, in this order: the queue (squeue), accounting (sacct, where present), what the job noted itself, and
what it wrote. A run whose job waits or runs is never called startable, also while SLURM does not answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from harness.errors import UserError
from harness.launch.evaluation_status import EvaluationQueueState
from harness.launch.slurm.queue import Ended, NoAnswerError, QueuedJob, available, ended_jobs, read_queue
from harness.launch.slurm.submissions import FOLDER, Kind, Submission, Task, last_task_of, submissions
from harness.store.run import Run
from harness.store.status_sources import QueueState

_LOG_LINES = 3
_FAILED_STATES = {
    "OUT_OF_MEMORY": "out of memory",
    "DEADLINE": "past its deadline",
    "BOOT_FAIL": "its node did not boot",
}
_MEMORY_WORDS = re.compile(r"exceeded (job |step )?memory limit|oom[-_ ]kill", re.IGNORECASE)
_STOPPED_STATES = {
    "CANCELLED": "was cancelled",
    "TIMEOUT": "reached its time limit before it could save and requeue itself",
    "NODE_FAIL": "lost its node",
    "PREEMPTED": "was preempted and not requeued",
    "REVOKED": "was revoked",
}


_GOING_ON = ("started", "requeued", "preempted")
"""Notes of a job after which it goes on, or would have."""


@dataclass(frozen=True)
class Placed:
    """A task of a submission and its job in the queue (live or just ended), if SLURM still shows one."""

    submission: Submission
    index: int
    job: QueuedJob | None

    @property
    def task(self) -> Task:
        return self.submission.tasks[self.index]

    @property
    def job_id(self) -> str | None:
        return self.submission.job_of(self.index) or (self.job.job_id if self.job else None)

    @property
    def array(self) -> str | None:
        """The id of its array, or of the job if it is alone."""
        return self.submission.job_id or (self.job.array if self.job else None)

    @property
    def live(self) -> bool:
        return self.job is not None and self.job.live

    @property
    def hopeless(self) -> bool:
        """It waits for a job that did not end well; SLURM is about to cancel it."""
        return self.job is not None and self.job.reason == "DependencyNeverSatisfied"


def placed(root: Path, kind: Kind = "train") -> dict[str, Placed]:
    """Run id (for evaluations: ``<run id>-<benchmark>``) -> its last submission, a live job before a later dead one.

    Raises :class:`~harness.launch.slurm.queue.NoAnswerError`.
    """
    return _placed(root, read_queue(_owners(root)), kind)


def placed_by_kind(root: Path) -> dict[Kind, dict[str, Placed]]:
    """:func:`placed` for every kind, from one look at the queue."""
    queue = read_queue(_owners(root))
    return {kind: _placed(root, queue, kind) for kind in get_args(Kind)}


def live_places(root: Path) -> list[Placed]:
    """Every job that waits or runs for the store at ``root``, also where a task has several; in the queue's order.

    Raises :class:`~harness.launch.slurm.queue.NoAnswerError`.
    """
    by_name = {submission.name: submission for submission in submissions(root)}
    return [place for job in read_queue(_owners(root)) if job.live and (place := _place_of(job, by_name)) is not None]


def evaluation_states(runs: Sequence[Run]) -> dict[tuple[str, str], EvaluationQueueState]:
    """For each submitted evaluation of ``runs``: what became of its job, where that says more than the store."""
    result: dict[tuple[str, str], EvaluationQueueState] = {}
    for root, members in _by_store(runs):
        result.update(_evaluation_states(root.absolute(), {run.run_id: run for run in members}))
    return result


def _by_store(runs: Sequence[Run]) -> Iterator[tuple[Path, list[Run]]]:
    """The runs of each store from which something was submitted."""
    for root in {run.path.parent for run in runs}:
        if (root / FOLDER / "submissions").is_dir():
            yield root, [run for run in runs if run.path.parent == root]


def _asked_queue(root: Path) -> tuple[list[QueuedJob], str]:
    """The queue, and why SLURM did not tell it (then it is empty); "" where it did."""
    if not available():
        return [], "squeue is not installed here"
    try:
        return read_queue(_owners(root)), ""
    except NoAnswerError as error:
        return [], str(error)


def _evaluation_states(root: Path, runs: Mapping[str, Run]) -> dict[tuple[str, str], EvaluationQueueState]:
    queue, silence = _asked_queue(root)
    places = [place for place in _placed(root, queue, "evaluate").values() if place.task.run_id in runs]
    gone = [place.job_id for place in places if not place.live and place.job_id is not None]
    accounts = ended_jobs(gone) if gone and not silence else {}
    result = {}
    for place in places:
        state = _evaluation(runs[place.task.run_id], place, accounts, silence)
        if state is not None and place.task.benchmark is not None:
            result[place.task.run_id, place.task.benchmark] = state
    return result


def _evaluation(run: Run, place: Placed, accounts: Mapping[str, Ended], silence: str) -> EvaluationQueueState | None:
    job, events = place.job, place.submission.events(place.index)
    if silence:
        if place.job_id is not None and (not events or events[-1]["event"] in _GOING_ON):
            return EvaluationQueueState("queued", f"job {place.job_id} was submitted and has not ended; {silence}")
        return None
    if job is not None and job.live and not place.hopeless:
        if job.held:
            return EvaluationQueueState("held", f"job {job.job_id} is held ({job.reason})")
        if job.state == "RUNNING":
            return EvaluationQueueState("running", f"job {job.job_id} on {job.nodes}, {job.left} left of its time")
        return EvaluationQueueState("queued", f"job {job.job_id} pending ({job.reason})")
    if place.job_id is None or run.status().state != "done":
        return None  # what became of the training says more
    ended = accounts.get(place.job_id)
    if ended is None and job is not None and not job.live:
        ended = Ended(job.state, "")
    if not events and ended is not None and ended.state == "CANCELLED":
        return None  # with the training that it waited for, or by its user: nobody evaluates it
    state = _ended_badly(place, place.job_id, ended, "")
    if state is None and events and events[-1]["event"] in _GOING_ON:
        state = _ended_somehow(place, place.job_id, ended, "")
    if state is None:
        return None
    return EvaluationQueueState("failed" if state.state == "failed" else "missing", state.reason.removesuffix(", "))


def _placed(root: Path, queue: Sequence[QueuedJob], kind: Kind) -> dict[str, Placed]:
    found = submissions(root)
    by_name = {submission.name: submission for submission in found}
    result: dict[str, Placed] = {}
    for job_name, (submission, index) in last_task_of(found, kind).items():
        result[job_name] = Placed(submission, index, None)
    for job in queue:
        place = _place_of(job, by_name)
        if place is None or place.task.kind != kind:
            continue
        known = result[place.task.job_name]
        same = known.submission.folder == place.submission.folder
        if job.live or (same and known.job is None):
            result[place.task.job_name] = place
    return result


def _place_of(job: QueuedJob, by_name: Mapping[str, Submission]) -> Placed | None:
    """The task behind a job in the queue; None: it is no job of these submissions."""
    submission = by_name.get(job.script.parent.name)
    if submission is None:
        return None
    index = next(iter(submission.tasks)) if job.index is None else job.index
    return Placed(submission, index, job) if index in submission.tasks else None


def queue_states(runs: Sequence[Run]) -> dict[str, QueueState]:
    """For each submitted run of ``runs`` that is not done: what became of its job. One squeue call for all of them."""
    result: dict[str, QueueState] = {}
    for root, members in _by_store(runs):
        result.update(_states(root, members))
    return result


def _states(root: Path, runs: Sequence[Run]) -> dict[str, QueueState]:
    queue, silence = _asked_queue(root)
    places = _placed(root.absolute(), queue, "train")
    known = {run.run_id: places[run.run_id] for run in runs if run.run_id in places}
    gone = [place.job_id for place in known.values() if not place.live and place.job_id is not None]
    accounts = ended_jobs(gone) if not silence else {}
    result = {}
    for run in runs:
        place = known.get(run.run_id)
        if place is None:
            continue
        state = _silent(run, place, silence) if silence else _state(run, place, accounts)
        if state is not None:
            result[run.run_id] = state
    return result


def _silent(run: Run, place: Placed, silence: str) -> QueueState | None:
    """SLURM does not answer. A job that has not ended by its own account may still be waiting or running."""
    events = place.submission.events(place.index)
    last = events[-1]["event"] if events else None
    status = run.status()
    if status.state == "running":
        return None
    if (last is None or last in _GOING_ON) and place.submission.job_id is not None:
        return QueueState("queued", f"job {place.job_id} was submitted and has not ended; {silence}")
    return None


def _state(run: Run, place: Placed, accounts: Mapping[str, Ended]) -> QueueState | None:
    if place.job is not None and place.job.live:
        return _live(run, place, place.job)
    if run.status().state == "running":
        return None
    job_id = place.job_id
    if job_id is None:
        return None  # sbatch was never called for it
    ended = accounts.get(job_id)
    if ended is None and place.job is not None:
        ended = Ended(place.job.state, "")
    return _gone(run, place, job_id, ended)


def _live(run: Run, place: Placed, job: QueuedJob) -> QueueState:
    if job.held:
        return QueueState(
            "held", f"job {job.job_id} is held ({job.reason}); `python -m harness requeue {run.run_id}` releases it"
        )
    if job.state == "RUNNING":
        where = f"job {job.job_id} on {job.nodes}, {job.left} left of its time"
        status = run.status()
        if status.state == "running":
            return QueueState("running", f"step {status.step} of {status.steps}{_eta(run)}, {where}")
        return QueueState("running", f"starting, {where}")
    if job.state in ("COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED"):
        return QueueState(
            "running" if job.state != "COMPLETING" else "queued", f"job {job.job_id} is {job.state.lower()}"
        )
    when = "" if job.starts in ("N/A", "") else f", expected to start {job.starts}"
    events = place.submission.events(place.index)
    if any(event["event"] == "started" for event in events):
        status = run.status()
        why = {"requeued": "time limit", "preempted": "preempted"}.get(
            events[-1]["event"], "its node or SLURM ended it"
        )
        return QueueState(
            "queued", f"job {job.job_id} requeued ({why}) at step {status.step}, pending ({job.reason}){when}"
        )
    return QueueState("queued", f"job {job.job_id} pending ({job.reason}){when}")


def _gone(run: Run, place: Placed, job_id: str, ended: Ended | None) -> QueueState | None:
    """The job is no longer in the queue and the run is not done."""
    events = place.submission.events(place.index)
    last = events[-1] if events else {"event": "none"}
    status = run.status()
    if _trained_elsewhere_since(run, float(last.get("time", 0.0))):
        return None
    where = f"step {status.step} of {status.steps}"
    badly = _ended_badly(place, job_id, ended, f", {where}")
    if badly is not None:
        return badly
    if status.state == "failed":
        return QueueState("failed", f"{status.reason} (job {job_id}{_code(last, ended)})")
    return _ended_somehow(place, job_id, ended, f", {where}")


def _ended_badly(place: Placed, job_id: str, ended: Ended | None, where: str) -> QueueState | None:
    """What SLURM, or the job's last note, says of a job that did not end by its own work. ``where``: ``", step ..."``
    or nothing."""
    events = place.submission.events(place.index)
    last = events[-1] if events else {"event": "none"}
    at = where.replace(", step", " at step")
    state = ended.state if ended and ended.state in _FAILED_STATES else None
    if state is None and (last.get("reason") == "OUT_OF_MEMORY" or _killed_for_memory(place, last)):
        state = "OUT_OF_MEMORY"
    if state is not None:
        what = _FAILED_STATES[state]
        peak = f", peak {last['peak_gb']:.1f} GB" if "peak_gb" in last else ""
        asked = place.submission.settings.get("mem_gb")
        limit = f"; ask for more than hydra.launcher.mem_gb={asked:g}" if state == "OUT_OF_MEMORY" and asked else ""
        return QueueState("failed", f"job {job_id}: {what}{at}{peak}{limit}")
    if last["event"] == "gave_up":
        return QueueState("failed", f"job {job_id}: {last['reason']}{at}; give it more hydra.launcher.time")
    if last["event"] == "failed":
        return QueueState("failed", f"job {job_id}: {last['reason']}")
    if last["event"] == "not_started":
        words = _last_words(place)
        return QueueState("failed", f"job {job_id}: set-up ended with exit code {last['exit_code']}{words}")
    if ended is not None and ended.state in _STOPPED_STATES:
        return QueueState("interrupted", f"job {job_id} {_STOPPED_STATES[ended.state]}{where}")
    if last["event"] == "cancelled":
        return QueueState("interrupted", f"job {job_id} was cancelled{where}")
    return None


def _ended_somehow(place: Placed, job_id: str, ended: Ended | None, where: str) -> QueueState:
    """The rest: killed, lost, or ended for no reason that anybody noted."""
    events = place.submission.events(place.index)
    last = events[-1] if events else {"event": "none"}
    if last["event"] == "ended" and "signal" in last:
        asked = place.submission.settings.get("mem_gb")
        near = last["signal"] == signal.SIGKILL.name and asked and last.get("peak_gb", 0) > 0.9 * asked
        hint = f", perhaps for lack of memory (peak {last['peak_gb']:.1f} of {asked:g} GB)" if near else ""
        return QueueState("interrupted", f"job {job_id}: the worker was killed by {last['signal']}{hint}{where}")
    if not events and ended is not None and ended.state == "FAILED":
        return QueueState(
            "failed", f"job {job_id} ended before it started anything{_code(last, ended)}{_last_words(place)}"
        )
    if last["event"] == "none":
        return QueueState("interrupted", f"job {job_id} left the queue before it started{_last_words(place)}")
    if last["event"] in ("ended", "stopped", "busy", "requeue_failed"):
        why = f": {last['reason']}" if "reason" in last else ""
        return QueueState(
            "interrupted", f"job {job_id} {last['event'].replace('_', ' ')}{_code(last, ended)}{why}{where}"
        )
    return QueueState("interrupted", f"job {job_id} ended without a word (killed, or its node was lost){where}")


def _trained_elsewhere_since(run: Run, moment: float) -> bool:
    """Whether an attempt began after ``moment``: then what became of the job is no longer news."""
    try:
        attempts = run.manifest.read()["attempts"]
    except UserError:
        return False
    return bool(moment and attempts) and datetime.fromisoformat(attempts[-1]["start"]).timestamp() > moment + 1


def _code(last: Mapping[str, Any], ended: Ended | None) -> str:
    code = last.get("exit_code", ended.exit_code if ended else "")
    return f", exit code {code}" if code not in ("", None) else ""


def _killed_for_memory(place: Placed, last: Mapping[str, Any]) -> bool:
    """Whether slurmstepd said so in the job's output since its last start: without control groups SLURM calls such a
    job FAILED, with signal 9."""
    path = place.submission.output(place.index)
    if path is None or last.get("exit_code", 1) == 0:
        return False
    with contextlib.suppress(OSError):
        text = path.read_text(errors="replace").rpartition(" started {")[2]
        return any(line.startswith("slurmstepd") and _MEMORY_WORDS.search(line) for line in text.splitlines())
    return False


def _last_words(place: Placed) -> str:
    path = place.submission.output(place.index)
    try:
        lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()] if path else []
    except OSError:
        lines = []
    return ": " + " / ".join(lines[-_LOG_LINES:]) if lines else ""


def _eta(run: Run) -> str:
    rows = run.metrics.tail(10)
    seconds = [float(row["seconds"]) for row in rows if isinstance(row.get("seconds"), int | float)]
    if not seconds:
        return ""
    status = run.status()
    left = statistics.median(seconds) * (status.steps - status.step)
    return f", ready in about {left / 3600:.1f} h" if left > 5400 else f", ready in about {left / 60:.0f} min"


def _owners(root: Path) -> Iterable[int]:
    """Numeric ids of everybody who submitted into this store."""
    owners = {os.getuid()}
    folder = root / FOLDER / "submissions"
    with contextlib.suppress(OSError):
        owners |= {entry.stat().st_uid for entry in os.scandir(folder)}
    return owners

"""The process inside a job: ``python -m harness.launch.slurm.job SUBMISSION``.

It takes the place of the batch shell, starts the task (a run's worker, or a command) and stays beside it:

* Some time before the limit (SLURM sends USR2; the clock is watched as well) the worker is asked to save and end, then
  the job requeues itself. A worker that needs longer than there is time costs the steps since its last checkpoint.
* TERM: SLURM has sent it to the worker as well. After a preemption SLURM requeues the job; after scancel nobody does.
* The worker dies: how, and whether for lack of memory, is noted, and the job ends with an error.

What happens is noted in the submission's folder, for ``python -m harness status`` where SLURM has forgotten it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from harness.errors import UserError
from harness.launch.slurm.queue import NoAnswerError, run, show_job
from harness.launch.slurm.ray_cluster import PATIENCE, ray_cluster
from harness.launch.slurm.submissions import Submission, Task
from harness.launch.wanted_evaluations import progress
from harness.launch.worker import BUSY, FAILED, FINISHED, INTERRUPTED
from harness.store import Run
from harness.store.lock import STALE_SECONDS

MAX_IDLE_RESTARTS = 3
"""A job that reached its time limit this many times without one new step (of an evaluation: one new answer) does not
requeue itself again."""

_POLL_SECONDS = 0.1
_RESERVE_SECONDS = 10.0
"""Left of the notice when a worker that has not saved yet is given up and the job requeued."""
_BUSY_POLL_SECONDS = 5.0
_KILL_SECONDS = 120.0
_OOM = "OUT_OF_MEMORY"


class Signals:
    """Which of SLURM's signals came."""

    def __init__(self) -> None:
        self.limit_near = False
        self.terminated = False
        signal.signal(signal.SIGUSR2, self._limit)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGCONT, lambda number, frame: None)

    def _limit(self, number: int, frame: FrameType | None) -> None:
        self.limit_near = True

    def _terminate(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True


class Job:
    """One start of one task."""

    def __init__(self, submission: Submission, index: int, signals: Signals) -> None:
        self.submission = submission
        self.index = index
        self.task: Task = submission.tasks[index]
        folder = submission.runs / self.task.run_id
        self.run = Run(folder) if self.task.kind == "train" else None
        """The run that is trained; None in a job that evaluates or collects."""
        self._evaluated = Run(folder) if self.task.kind == "evaluate" else None
        self.slurm_id = own_id(os.environ)
        self._signals = signals
        self._restarts = int(os.environ.get("SLURM_RESTART_COUNT", "0"))
        self._notice = float(submission.settings.get("signal_seconds", 60))
        self._end: float | None = None

    def note(self, event: str, **values: Any) -> None:
        self.submission.append(self.index, event, job=self.slurm_id, **values)
        print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {event} {values}", flush=True)

    def execute(self) -> int:
        """Returns the exit code of the job: 0 only when a run is done, so that ``afterok`` means what it says."""
        self._rename()
        self._end = _end_time(show_job(self.slurm_id))
        self.note("started", node=os.environ.get("SLURMD_NODENAME"), restarts=self._restarts, step=self._step())
        code = self._attend(self._command())
        started = time.monotonic()
        while code == BUSY and self.run is not None and not self._stopping:
            if time.monotonic() - started > STALE_SECONDS + 60:
                self.note("busy", reason=self.run.status().reason)
                return BUSY
            self._wait(_BUSY_POLL_SECONDS)
            if not self._stopping and self.run.status().state != "running":
                code = self._attend(self._command())
        if self._limit_near and not self._signals.terminated and not self._done(code):
            return self._requeue()
        if self._signals.terminated and not self._done(code):
            return self._after_termination()
        return self._ended(code)

    @property
    def _stopping(self) -> bool:
        return self._signals.terminated or self._limit_near

    @property
    def _limit_near(self) -> bool:
        """SLURM said so, or its signal came before anybody listened and the clock says so."""
        if self._end is not None and time.time() > self._end - self._notice:
            self._signals.limit_near = True
        return self._signals.limit_near

    def _command(self) -> list[str]:
        if self.run is not None:
            return [sys.executable, "-u", "-m", "harness.launch.worker", "--check", str(self.run.path)]
        if self._evaluated is not None:
            worker = [sys.executable, "-u", "-m", "harness.launch.evaluation_worker"]
            worker += ["--since", str(self.submission.created), str(self._evaluated.path)]
            return [*worker, *(self.task.command or ())]
        return [sys.executable, "-u", "-m", "harness", *(self.task.command or ())]

    def _attend(self, command: Sequence[str]) -> int:
        """Run the command until it ends or is given up; returns its exit code, negative for a signal."""
        if self._stopping:
            return INTERRUPTED
        nodes = int(self.submission.settings.get("nodes", 1))
        with contextlib.ExitStack() as stack:
            environment: Mapping[str, str] = {**PATIENCE, **os.environ}
            if nodes > 1 and self.run is not None:
                gpus = int(self.submission.settings["gpus_per_node"])
                variables = stack.enter_context(ray_cluster(nodes, gpus, stopping=lambda: self._stopping))
                if variables is None:
                    return INTERRUPTED
                environment = {**environment, **variables}
            log: Any = None
            if self.run is not None:
                log = stack.enter_context(open(self.run.log_path, "ab"))
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
            return self._until_end(process)

    def _until_end(self, process: subprocess.Popen[bytes]) -> int:
        asked: float | None = None
        while process.poll() is None:
            if self._limit_near and not self._signals.terminated:
                if asked is None:
                    asked = time.time()
                    process.terminate()
                end = asked + self._notice if self._end is None else self._end
                if time.time() > max(end - _RESERVE_SECONDS, (asked + end) / 2):
                    self.note("not_saved", reason=f"the worker did not save within {time.time() - asked:.0f} s")
                    return INTERRUPTED
            time.sleep(_POLL_SECONDS)
        return int(process.returncode)

    def _done(self, code: int) -> bool:
        return code == FINISHED and (self.run is None or self.run.status().state == "done")

    def _ended(self, code: int) -> int:
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        values: dict[str, Any] = {"exit_code": code, "step": self._step(), "peak_gb": round(peak, 2)}
        if code < 0:
            values["signal"] = signal.Signals(-code).name
            if _killed_for_memory():
                values["reason"] = _OOM
        if code == FINISHED and not self._done(code):
            code = FAILED
        self.note("ended", **values)
        return code if code >= 0 else 128 - code

    def _requeue(self) -> int:
        """Put this very job back into the queue; SLURM then ends it."""
        if self._idle_restarts() >= MAX_IDLE_RESTARTS:
            self.note("gave_up", step=self._step(), reason=f"no step done between {MAX_IDLE_RESTARTS} time limits")
            return FAILED
        self.note("requeued", step=self._step(), reason="time limit")
        end = time.monotonic() + _KILL_SECONDS
        while True:
            try:
                run("scontrol", "requeue", self.slurm_id)
                break
            except NoAnswerError as error:
                print(error, flush=True)
                if time.monotonic() > end:
                    self.note("requeue_failed", reason=str(error))
                    return INTERRUPTED
                time.sleep(2)
        time.sleep(_KILL_SECONDS)
        return INTERRUPTED

    def _after_termination(self) -> int:
        """Preempted, cancelled, or only asked to stop? SLURM knows."""
        for _ in range(20):
            job = show_job(self.slurm_id)
            state = job.get("JobState", "")
            if state == "RUNNING" and _time(job, "PreemptTime"):
                self.note("preempted", step=self._step())
                return self._requeue_preempted()
            if int(job.get("Restarts", "0")) > self._restarts or state in ("PREEMPTED", "REQUEUED"):
                self.note("preempted", step=self._step())
                time.sleep(_KILL_SECONDS)
                return INTERRUPTED
            if state and state != "RUNNING":
                self.note(
                    "cancelled" if state in ("CANCELLED", "COMPLETING") else "stopped", state=state, step=self._step()
                )
                return INTERRUPTED
            time.sleep(0.5)
        self.note("stopped", step=self._step(), reason="asked to stop (SIGTERM), not cancelled")
        return INTERRUPTED

    def _requeue_preempted(self) -> int:
        """Saved before the grace time is over: make room now. Where that is refused SLURM ends and requeues the job."""
        with contextlib.suppress(NoAnswerError):
            run("scontrol", "requeue", self.slurm_id)
        time.sleep(_KILL_SECONDS)
        return INTERRUPTED

    def _idle_restarts(self) -> int:
        """How many of the last starts in a row, this one included, logged no step."""
        steps = [event.get("step") for event in self.submission.events(self.index) if event["event"] == "started"]
        current, count = self._step(), 0
        for step in reversed(steps):
            if step != current:
                break
            count += 1
        return count

    def _step(self) -> int | None:
        """How far it is: the step of a training; of an evaluation anything that grows with it."""
        if self._evaluated is not None and self.task.benchmark is not None:
            return progress(self._evaluated, self.task.benchmark)
        return None if self.run is None else self.run.metrics.last_step()

    def _rename(self) -> None:
        """The tasks of an array share a name; a task that runs gets its run's."""
        if len(self.submission.tasks) > 1:
            with contextlib.suppress(NoAnswerError):
                run("scontrol", "update", f"JobId={self.slurm_id}", f"JobName={self.task.job_name}")

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._stopping:
            time.sleep(_POLL_SECONDS)


def own_id(environment: Mapping[str, str]) -> str:
    """The id of this job alone: the SLURM_JOB_ID of an array's last task names the whole array to scontrol."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID", "")


def _end_time(job: Mapping[str, str]) -> float | None:
    """When SLURM will end the job, in seconds since the epoch; None without a limit."""
    try:
        return time.mktime(time.strptime(job.get("EndTime", ""), "%Y-%m-%dT%H:%M:%S"))
    except ValueError:
        return None


def _time(job: Mapping[str, str], key: str) -> bool:
    return job.get(key, "None") not in ("None", "Unknown", "N/A", "(null)")


def _killed_for_memory() -> bool:
    """Whether the control group of this job (version 2 or 1) counts a process killed for lack of memory."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        _, controllers, path = line.split(":", 2)
        folder, name = Path("/sys/fs/cgroup"), "memory.events"
        if "memory" in controllers:
            folder, name = folder / "memory", "memory.oom_control"
        elif controllers:
            continue
        inside = folder / path.lstrip("/")
        for level in (inside, *inside.parents):
            if level == folder or ("slurm" not in str(level) and "job" not in str(level)):
                break
            with contextlib.suppress(OSError, ValueError):
                counts = dict(item.split(maxsplit=1) for item in (level / name).read_text().splitlines())
                if int(counts.get("oom_kill", "0")) > 0:
                    return True
    return False


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 1:
        print("usage: python -m harness.launch.slurm.job SUBMISSION", file=sys.stderr)
        return 2
    signals = Signals()
    submission = Submission(Path(arguments[0]))
    number = os.environ.get("SLURM_ARRAY_TASK_ID")
    index = next(iter(submission.tasks)) if number is None else int(number)
    job = Job(submission, index, signals)
    try:
        return job.execute()
    except UserError as error:
        job.note("failed", reason=str(error))
        return FAILED


if __name__ == "__main__":
    sys.exit(main())

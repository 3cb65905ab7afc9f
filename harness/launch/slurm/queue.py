"""What SLURM says: squeue for jobs that wait or run (and those that ended minutes ago), sacct for older ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError

LIVE = (
    "PENDING",
    "RUNNING",
    "CONFIGURING",
    "COMPLETING",
    "SUSPENDED",
    "REQUEUED",
    "REQUEUE_FED",
    "REQUEUE_HOLD",
    "STAGE_OUT",
    "STOPPED",
    "RESIZING",
    "SIGNALING",
    "SPECIAL_EXIT",
)
_FIELDS = ("%F", "%K", "%A", "%T", "%r", "%N", "%M", "%L", "%S", "%o")
_SECONDS = 60
_NO_ANSWER = "SLURM does not answer"


class NoAnswerError(UserError):
    """squeue or scontrol failed: nothing is known about the queue."""


@dataclass(frozen=True)
class QueuedJob:
    """One job (a task of an array is one). ``used`` and ``left`` are SLURM's times, ``starts`` its expected start."""

    array: str
    index: int | None
    raw_id: str
    state: str
    reason: str
    nodes: str
    used: str
    left: str
    starts: str
    script: Path

    @property
    def job_id(self) -> str:
        return self.array if self.index is None else f"{self.array}_{self.index}"

    @property
    def live(self) -> bool:
        """Waiting, running or ending; a job that ended is shown for some minutes more."""
        return self.state in LIVE

    @property
    def held(self) -> bool:
        return "held" in self.reason.lower() or self.state == "REQUEUE_HOLD"


@dataclass(frozen=True)
class Ended:
    """How a job ended: SLURM's state (``OUT_OF_MEMORY``), exit code and signal."""

    state: str
    exit_code: str


def available() -> bool:
    return shutil.which("squeue") is not None


def read_queue(users: Iterable[int]) -> list[QueuedJob]:
    """Every job of these users (numeric ids). Raises :class:`NoAnswerError`."""
    names = ",".join(str(user) for user in sorted(set(users)))
    if not names:
        return []
    text = run("squeue", "--noheader", "--array", "--states=all", f"--user={names}", "--format=" + "|".join(_FIELDS))
    return [job for line in text.splitlines() if (job := _parse(line)) is not None]


def _parse(line: str) -> QueuedJob | None:
    parts = line.split("|", len(_FIELDS) - 1)
    if len(parts) != len(_FIELDS):
        return None
    array, index, raw, state, reason, nodes, used, left, starts, script = parts
    number = int(index) if index.isdigit() else None
    return QueuedJob(array, number, raw, state, reason, nodes, used, left, starts, Path(script))


def ended_jobs(jobs: Sequence[str]) -> dict[str, Ended]:
    """From sacct, by job id as asked for. Empty where accounting is absent."""
    if not jobs or shutil.which("sacct") is None:
        return {}
    command = ("sacct", "-X", "-n", "-P", "-j", ",".join(jobs), "-o", "JobID,State,ExitCode")
    try:
        text = run(*command)
    except NoAnswerError:
        return {}
    found = {}
    for line in text.splitlines():
        job, _, rest = line.partition("|")
        state, _, code = rest.partition("|")
        if state:
            found[job] = Ended(state.split()[0], code)
    return found


def show_job(job: str) -> dict[str, str]:
    """``scontrol show job``: key -> value; empty when SLURM no longer knows the job."""
    try:
        text = run("scontrol", "--oneliner", "show", "job", job)
    except NoAnswerError:
        return {}
    return dict(re.findall(r"(?:^|\s)([A-Za-z:/]+)=(\S*)", text))


def max_array_size() -> int:
    """The number of tasks an array may have on this cluster."""
    match = re.search(r"MaxArraySize\s*=\s*(\d+)", run("scontrol", "show", "config"))
    return int(match.group(1)) if match else 1001


def run(*command: str) -> str:
    """Standard output of a SLURM command. Raises :class:`NoAnswerError`."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=os.environ | {"SLURM_TIME_FORMAT": "standard"},
        )
    except FileNotFoundError as error:
        raise NoAnswerError(f"{command[0]} is not installed here: submit from a login node of the cluster") from error
    except subprocess.TimeoutExpired as error:
        raise NoAnswerError(f"{_NO_ANSWER} ({command[0]}: nothing within {_SECONDS} s); try again later") from error
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise NoAnswerError(f"{_NO_ANSWER} ({command[0]}: {lines[-1] if lines else f'exit code {done.returncode}'})")
    return done.stdout

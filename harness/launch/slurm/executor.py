"""submitit's SLURM executor, made to submit runs of a store: the script, its parameters and the call of sbatch.

Of submitit: parameter names and their check, the sbatch script, arrays with a throttle, submission, job ids. Not of it:
the pickled function that a job loads. submitit moves the pickles to their place after sbatch has returned, so a job
whose submitter dies in between fails; and its signal handler decides from the pickle whether to requeue. Here a job
runs ``harness.launch.slurm.job`` on ``tasks.json``, which is complete before sbatch is called.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from submitit.core.utils import FailedJobError, FailedSubmissionError
from submitit.slurm.slurm import SlurmExecutor

from harness.errors import UserError
from harness.launch.slurm.options import Resources, SlurmOptions
from harness.launch.slurm.submissions import Submission

SIGNAL = "USR2"
_KEEP = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
_INHERITED = ("SLURM_", "SLURMD_", "SRUN_", "SUBMITIT_")
_DISTRIBUTED = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_JOB_ID_UNKNOWN = "sbatch did not confirm the submission ({}); give the same command again: it looks what became of it"


class ArrayExecutor(SlurmExecutor):
    """Submits the tasks of one :class:`Submission` as an array (or as a job, if there is one task)."""

    def __init__(self, submission: Submission) -> None:
        super().__init__(submission.folder)
        self.submission = submission

    @classmethod
    def affinity(cls) -> int:
        """Scripts can be written where SLURM is not installed."""
        return 2

    def configure(
        self,
        options: SlurmOptions,
        wanted: Resources,
        *,
        name: str,
        code: Path | None,
        environment: dict[str, str],
        dependency: str | None = None,
    ) -> None:
        """Set the parameters of the script. ``code``: folder that comes first on PYTHONPATH."""
        self.python = shlex.quote(options.python or sys.executable)
        extra: dict[str, Any] = {"signal": f"B:{SIGNAL}@{options.signal_seconds}", "requeue": True}
        if len(self.submission.tasks) > 1:
            spec = _ranges(sorted(self.submission.tasks))
            extra["array"] = f"{spec}%{min(options.array_parallelism, len(self.submission.tasks))}"
        if dependency is not None:
            extra["kill-on-invalid-dep"] = "yes"
        for key, value in (options.sbatch or {}).items():
            if value is not None and value is not False:
                extra[key.lstrip("-").replace("_", "-")] = value
        self.update_parameters(
            job_name=name,
            partition=options.partition,
            account=options.account,
            qos=options.qos,
            constraint=options.constraint,
            time=options.time,
            nodes=wanted.nodes,
            ntasks_per_node=1,
            cpus_per_task=options.cpus_per_task,
            gpus_per_node=wanted.gpus_per_node or None,
            mem=None if options.mem_gb is None else f"{round(options.mem_gb * 1024)}M",
            dependency=dependency,
            array_parallelism=options.array_parallelism,
            setup=self._setup(options.setup, code, environment),
            stderr_to_stdout=True,
            wckey=None,
            use_srun=False,
            additional_parameters=extra,
        )
        if len(self.submission.tasks) > 1:
            self.parameters["map_count"] = len(self.submission.tasks)

    def script(self) -> str:
        return str(self._make_submission_file_text(self._submitit_command_str, ""))

    def call_sbatch(self) -> str:
        """Call sbatch once; returns the id of the array (or job). Raises :class:`UserError` with sbatch's own words."""
        with _without_slurm_variables(), contextlib.redirect_stderr(io.StringIO()):
            try:
                job = self._submit_command(self._submitit_command_str)
            except FailedSubmissionError as error:
                raise UserError(_JOB_ID_UNKNOWN.format(" ".join(str(error).split())[:200])) from error
            except FailedJobError as error:
                raise UserError(f"sbatch: {_reason(str(error))}") from error
        self.submission.remember_job(job.job_id)
        return str(job.job_id)

    @property
    def _submitit_command_str(self) -> str:
        """``exec``: the time limit's signal goes to the batch shell alone, so the job takes its place."""
        return f"exec {self.python} -u -m harness.launch.slurm.job {shlex.quote(str(self.folder))}"

    def _setup(self, commands: Sequence[str], code: Path | None, environment: dict[str, str]) -> list[str]:
        """The user's commands; the first that fails ends the job with a note, as does a Python that does not start."""
        only = next(iter(self.submission.tasks))
        events = shlex.quote(str(self.submission.folder / "events"))
        note = '{"time": %s, "event": "not_started", "exit_code": %s, "job": "%s", "node": "%s"}\\n'
        lines = [
            "not_started() {",
            f'  printf \'{note}\' "$(date +%s)" "$1" "$SLURM_JOB_ID" "$SLURMD_NODENAME" \\',
            f'    >> {events}/"${{SLURM_ARRAY_TASK_ID:-{only}}}".jsonl',
            "}",
            "trap 'not_started $?' EXIT",
            f"trap '' {SIGNAL}",  # until the job itself listens
            "set -e",
            *commands,
            "set +e",
        ]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
        if code is not None:
            lines.append(f'export PYTHONPATH={shlex.quote(str(code))}"${{PYTHONPATH:+:$PYTHONPATH}}"')
        return lines


def _ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` -> ``"0-2,5"``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def _reason(text: str) -> str:
    """sbatch's last complaint, without its prefixes."""
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in text.splitlines() if line.strip()]
    return "; ".join(lines[-3:]) or "refused without a word"


@contextlib.contextmanager
def _without_slurm_variables() -> Iterator[None]:
    """What the surrounding job or allocation says of itself must not become the default of a new job."""
    hidden = {
        name: os.environ.pop(name)
        for name in list(os.environ)
        if (name.startswith(_INHERITED) and name not in _KEEP) or name in _DISTRIBUTED
    }
    try:
        yield
    finally:
        os.environ.update(hidden)

"""In which state a run is, and why: decided from what is on the disk, never from an exit code."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.errors import UserError
from harness.store.evaluations import Evaluations
from harness.store.lock import read_owner
from harness.store.manifest import Manifest
from harness.store.metrics import Metrics
from harness.store.stored_config import NAME as CONFIG_NAME
from harness.store.stored_config import digest, read_config

State = Literal["new", "queued", "held", "running", "interrupted", "failed", "done", "damaged"]


@dataclass(frozen=True)
class RunStatus:
    """``step`` of ``steps`` are logged; ``reason`` says in words why the state is what it is."""

    state: State
    reason: str
    step: int
    steps: int
    attempts: int

    @property
    def startable(self) -> bool:
        """Whether a launcher may start the run without being told to retry."""
        return self.state in ("new", "interrupted")


def status_of(folder: Path, metrics: Metrics) -> RunStatus:
    """Reads the manifest, the lock and the end of the metrics log: cheap enough for hundreds of runs."""
    try:
        manifest = Manifest(folder).read()
        _check_config(folder, manifest)
    except UserError as error:
        return RunStatus("damaged", str(error), 0, 0, 0)
    step, steps = metrics.last_step(), int(manifest["steps"])
    attempts = manifest["attempts"]
    state, reason = _decide(folder, manifest, step, steps)
    return RunStatus(state, reason, step, steps, len(attempts))


def _decide(folder: Path, manifest: dict[str, Any], step: int, steps: int) -> tuple[State, str]:
    benchmark = manifest["held_out_benchmark"]
    evaluated = Evaluations(folder / "evals").path(benchmark, steps).exists()
    if step >= steps and evaluated:
        return "done", f"all {steps} steps and the final evaluation are stored"
    owner = read_owner(folder)
    if owner is not None and owner.alive:
        return "running", f"step {step} of {steps}, {owner}"
    attempts = manifest["attempts"]
    if not attempts:
        return "new", "not started"
    last = attempts[-1]
    where = f"step {step} of {steps}"
    if step >= steps and last["outcome"] != "failed":
        where = f"all {steps} steps are logged, evals/{benchmark}/{steps}.json is missing"
    if last["outcome"] == "failed":
        return "failed", f"attempt {last['attempt']} failed at {where}: {last['error']}"
    if last["outcome"] is None:
        return "interrupted", (
            f"attempt {last['attempt']} (pid {last['pid']} on {last['host']}) ended without a word, {where}"
        )
    return "interrupted", f"attempt {last['attempt']} stopped: {last['error'] or 'asked to stop'}, {where}"


def _check_config(folder: Path, manifest: dict[str, Any]) -> None:
    """A config.yaml whose bytes are those of its creation needs no parsing; any other must still give the run's id."""
    path = folder / CONFIG_NAME
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); restore it or delete the folder") from error
    if digest(content) != manifest.get("config_sha256") or manifest.get("run_id") != folder.name:
        read_config(folder)

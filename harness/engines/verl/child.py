"""The process that runs verl: ``python -m harness.engines.verl.child FOLDER PARENT``; started by the engine alone.

Runs ``verl.trainer.main_ppo`` with the arguments in FOLDER, ends when its parent ends, and leaves in FOLDER, in one
line, why it failed.
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

ARGUMENTS = "arguments.txt"
ERROR = "error.json"
FAILED, FULL, STOPPED = 1, 74, 75
"""Exit codes: an error, a disk so full that not even the error could be written, a stop that was asked for."""

AGAIN = "start the run again (retry=true), it continues from its last checkpoint"
DISK_FULL = f"the disk is full; free space (checkpoints and exports of other runs), then {AGAIN}"
NO_GCS = "Failed to connect to GCS"
"""What Ray writes when its control process is gone. Inside a call it raises; otherwise it ends the process at once."""
RAY_ENDED = f"Ray ended; {AGAIN}"

WATCH_SECONDS = 1.0
LAST_RESORT_SECONDS = 15.0


def main(folder: Path, parent: int) -> int:
    _follow(parent)
    arguments = (folder / ARGUMENTS).read_text(encoding="utf-8").splitlines()
    # No output folder of Hydra's.
    sys.argv = ["main_ppo", *arguments, "hydra.run.dir=.", "hydra.output_subdir=null", "hydra/job_logging=none"]
    try:
        from harness.engines.verl import plugin

        plugin.ensure_registered()
        runpy.run_module("verl.trainer.main_ppo", run_name="__main__")
    except SystemExit as error:
        return int(error.code or 0) if isinstance(error.code, int | None) else FAILED
    except BaseException as error:
        chain = list(_causes(error))
        if any(type(item).__name__ == "StopRequestedError" for item in chain):
            return STOPPED
        try:
            (folder / ERROR).write_text(json.dumps({"cause": explain(chain)}), encoding="utf-8")
        except OSError as problem:
            return FULL if problem.errno == errno.ENOSPC else FAILED
        raise
    return 0


def explain(chain: list[BaseException]) -> str:
    """One line: what went wrong and what to do, for the errors seen in practice; else the innermost error itself."""
    text = " ".join(f"{type(item).__name__}: {item}" for item in chain)
    inner = chain[-1]
    if "No space left on device" in text or "OutOfDiskError" in text:
        return DISK_FULL
    if "OutOfMemoryError" in text or "CUDA out of memory" in text:
        return (
            f"out of memory ({_line(inner, SHORT)}); lower engine.options.memory_fraction or "
            "engine.options.tokens_per_gpu, or use more GPUs"
        )
    if "timed out during startup" in text:
        return (
            "Ray did not start in time, the machine is busy; start the run again (retry=true) when less else is running"
        )
    if NO_GCS in text or any(type(item).__name__ in _RAY_GONE for item in chain):
        return f"{RAY_ENDED} ({_line(inner, SHORT)})"
    if any(type(item).__name__ in _DEAD for item in chain):
        return f"a worker process died, killed or out of host memory; {AGAIN} ({_line(inner, SHORT)})"
    return _line(inner)


_DEAD = ("ActorDiedError", "RayActorError", "WorkerCrashedError")
_RAY_GONE = ("ActorUnavailableError", "NodeDiedError", "LocalRayletDiedError", "RaySystemError", "GcsError")


def read_error(path: Path) -> str | None:
    """What a child left as the cause of its failure."""
    try:
        return str(json.loads(path.read_bytes())["cause"])
    except (OSError, ValueError, KeyError):
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what Ray wrapped in it, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        inner = getattr(current, "cause", None)
        current = inner if isinstance(inner, BaseException) else current.__cause__


LONG, SHORT = 2000, 200


def _line(error: BaseException, longest: int = LONG) -> str:
    message = " ".join(str(error).split())
    name = type(error).__name__
    text = message if name in ("UserError", "NoInformativeGroupError", "FailedGroupsError") else f"{name}: {message}"
    return text if len(text) <= longest else text[:longest].rstrip() + " ..."


def _follow(parent: int) -> None:
    """End with the parent, however it ends: a run has one owner."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(WATCH_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(LAST_RESORT_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))

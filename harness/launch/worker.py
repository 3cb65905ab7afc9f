"""Trains one run in this process: ``python -m harness.launch.worker RUN_DIR``.

Takes the run's lock, begins an attempt, calls the engine, and writes down how it ended. One thread unless the
environment says otherwise. SIGTERM or SIGINT stop it after the current step, with a checkpoint.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.compose import check_method_file
from harness.config import RunConfig
from harness.errors import UserError
from harness.launch import doctor
from harness.launch.engine_lookup import find_engine
from harness.launch.stop import StopRequest
from harness.launch.tracking import tracked
from harness.store import LockBusyError, LockLostError, Run
from harness.store.files import explanation

FINISHED, FAILED, MISTAKE, INTERRUPTED, BUSY = 0, 1, 2, 75, 76
"""Exit codes. They help a person or a scheduler; whether a run is done is decided from what it stored."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.launch.worker", description=__doc__)
    parser.add_argument("run_dir", type=Path, help="folder of the run")
    parser.add_argument("--parent", type=int, help="stop gracefully when the process with this pid is gone")
    parser.add_argument("--check", action="store_true", help="first check what `python -m harness doctor` checks")
    arguments = parser.parse_args(argv)
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    if not arguments.run_dir.is_dir():
        print(f"error: {arguments.run_dir} is no folder of a run", file=sys.stderr)
        return MISTAKE
    stop = StopRequest(arguments.parent)
    stop.listen()
    return work(Run(arguments.run_dir.resolve()), stop, check=arguments.check)


def work(run: Run, stop: StopRequest, *, check: bool = False) -> int:
    """One attempt at ``run``; returns the exit code. Errors are stored with the run and never raised. ``check``: see
    first that nothing on this machine is in the way."""
    try:
        config = run.config
        with run.lock("worker"):
            if run.status().state == "done":
                return FINISHED
            run.begin_attempt({"engine": config.engine.name})
            outcome, error = _attempt(config, run, stop, check)
            run.log(f"{outcome}{': ' + error if error else ''}")
            _say(run, f"{run.run_id}: {outcome}{': ' + error if error else ''}")
            run.end_attempt(outcome, error)
    except LockBusyError as error:
        _say(run, f"error: {error}")
        return BUSY
    except LockLostError as error:
        run.log(str(error))
        return BUSY
    except UserError as error:
        run.log(f"error: {error}")
        _say(run, f"error: {error}")
        return MISTAKE
    return {"finished": FINISHED, "interrupted": INTERRUPTED, "failed": FAILED}[outcome]


def _attempt(config: RunConfig, run: Run, stop: StopRequest, check: bool) -> tuple[str, str | None]:
    """Outcome and error of training. LockLostError passes: the run is no longer this process's to describe."""
    attempt = len(run.manifest.read()["attempts"])
    run.log(f"attempt {attempt} begins at step {run.metrics.last_step()} of {config.training.steps}, pid {os.getpid()}")
    try:
        check_method_file(config.method)
        if check:
            doctor.require(config, run.path)
        with tracked(run, config):
            find_engine(config.engine.name).train(config, run, stop)
    except LockLostError:
        raise
    except UserError as error:
        return "failed", str(error)
    except KeyboardInterrupt:
        return "interrupted", f"{stop.reason or 'interrupted'}, at once"
    except OSError as error:
        run.log(traceback.format_exc())
        return "failed", explanation(error, run.path) if error.errno else f"{type(error).__name__}: {error}"
    except BaseException as error:
        run.log(traceback.format_exc())
        return "failed", _one_line(error)
    status = run.status()
    if status.state == "done":
        return "finished", None
    if stop():
        return "interrupted", stop.reason
    return "failed", f"the engine returned although the run is not done: {status.reason}"


def _one_line(error: BaseException) -> str:
    """Type, message and place of an error, e.g. ``ValueError: no prompts (trainer.py:88)``."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:1000]}{place}" if message else f"{type(error).__name__}{place}"


def _say(run: Run, text: str) -> None:
    """On standard error, unless that is the run's own log."""
    try:
        if os.path.samestat(os.fstat(sys.stderr.fileno()), os.stat(run.log_path)):
            return
    except (OSError, ValueError):
        pass
    print(text, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

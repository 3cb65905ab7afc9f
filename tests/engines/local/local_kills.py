"""Start a stub run again and again and kill it each time; then let it finish.

``python local_kills.py FOLDER CONFIG KILLS``: the configuration as keywords of ``stub_config``, KILLS a list of [step,
seconds after that step was logged], both JSON. Attempts are forked from this process, which never trains itself, so
that PyTorch is imported once. Prints how many attempts died by SIGKILL.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from local_stub import one_attempt, stub_config

from harness.config import RunConfig
from harness.store import RunStore

PATIENCE = 60.0


def start(folder: Path, config: RunConfig) -> int:
    """Pid of a new attempt."""
    pid = os.fork()
    if pid:
        return pid
    try:
        one_attempt(folder, config)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def kill_after(folder: Path, config: RunConfig, step: int, seconds: float) -> bool:
    """True if the attempt was still running when it was killed."""
    metrics = RunStore(folder / "runs").create(config).metrics
    pid = start(folder, config)
    deadline = time.monotonic() + PATIENCE
    while metrics.last_step() < step and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)


def main() -> int:
    folder, config = Path(sys.argv[1]), stub_config(**json.loads(sys.argv[2]))
    killed = sum(kill_after(folder, config, step, seconds) for step, seconds in json.loads(sys.argv[3]))
    _, status = os.waitpid(start(folder, config), 0)
    print(killed)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())

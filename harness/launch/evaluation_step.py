"""One ``python -m harness evaluate`` for an evaluation worker, which it does not outlive, however the worker ends:
``python -m harness.launch.evaluation_step PARENT KEY=VALUE ...`` in a session of its own."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

_POLL_SECONDS = 0.5


def main() -> int:
    from harness.cli import main as harness

    parent = int(sys.argv[1])
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    return harness(["evaluate", *sys.argv[2:]])


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())

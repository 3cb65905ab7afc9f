"""An engine for tests: counts, on request slowly or badly, and keeps its count in a checkpoint.

``engine.options``: ``seconds`` a step, ``fail_at`` a step with an exception, ``die_at`` a step with SIGKILL of itself
(once), ``return_at`` a step where it stops for no reason, ``fill_at`` a step that fills the disk (once), ``prepare`` a
file to append to when preparing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path

from harness.store.files import write_atomically


def prepare(configs):
    for config in configs:
        path = config.engine.options.get("prepare")
        if path:
            with open(path, "a") as file:
                file.write(f"{os.getpid()}\n")


def train(config, run, should_stop):
    options = config.engine.options
    checkpoint = Path(run.checkpoints) / "count.json"
    done = json.loads(checkpoint.read_text())["step"] if checkpoint.exists() else 0
    for step in range(done + 1, config.training.steps + 1):
        time.sleep(options.get("seconds", 0.0))
        if step == options.get("fail_at"):
            raise ValueError(f"no luck at step {step}")
        if step == options.get("return_at"):
            return
        if step == options.get("fill_at") and not (Path(run.checkpoints) / "full").exists():
            with open(Path(run.checkpoints) / "full", "wb", buffering=0) as file:
                for size in (4096, 1):
                    with contextlib.suppress(OSError):
                        while file.write(b"x" * size):
                            pass
        values = {"reward/format": step / config.training.steps, "reward/correctness": -1.0, "seconds": 0.01}
        run.metrics.append(step, {**values, "density/format": 0.25, "density/correctness": 0.5})
        if step % config.output.checkpoint_every == 0 or step == config.training.steps or should_stop():
            write_atomically(checkpoint, json.dumps({"step": step}).encode())
        marker = Path(run.checkpoints) / "died"
        if step == options.get("die_at") and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if should_stop():
            return
    run.write_evaluation("pocket", config.training.steps, {"n": 1, "metrics": {"reward/format": 1.0}})

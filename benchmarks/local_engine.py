"""Speed and memory of the local engine on the pocket task: what the four methods of the main command cost.

``python benchmarks/local_engine.py [--steps 12] [--processes 2] [--task tool_calling]``

Trains ``--steps`` steps in each of ``--processes`` processes at once, as the pool launcher does, and prints seconds a
step by phase, start-up, memory, and the time of four methods in two processes that follows. Builds the warm start
first if it is not cached. Asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

METHODS, STEPS = ("grpo", "gdpo", "dara_sym", "dara_asym"), 60
TARGET_SECONDS, TARGET_MEBIBYTES = 142.0, 1024.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--task", default="tool_calling")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print(json.dumps(measure(METHODS[arguments.worker % len(METHODS)], arguments.steps, arguments.task)))
        return
    from harness.pocket import pocket_task

    print(f"checkpoint {pocket_task(composed('gdpo', arguments.steps, arguments.task)).checkpoint}", flush=True)
    report(run_together(arguments), arguments)


def run_together(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    command = [sys.executable, __file__, "--steps", str(arguments.steps), "--task", arguments.task, "--worker"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen([*command, str(index)], stdout=subprocess.PIPE, text=True, env=environment)
        for index in range(arguments.processes)
    ]
    return [json.loads(worker.communicate()[0].splitlines()[-1]) for worker in workers]


def report(results: list[dict[str, Any]], arguments: argparse.Namespace) -> None:
    for result in results:
        phases = ", ".join(f"{name} {seconds:.3f}" for name, seconds in result["phases"].items())
        print(
            f"{result['method']}: start-up {result['startup']:.1f} s, a step {result['step']:.3f} s "
            f"(median of {arguments.steps}), end {result['end']:.1f} s, peak {result['mebibytes']:.0f} MiB "
            f"(target <= {TARGET_MEBIBYTES:.0f}); it had {result['cpu']:.0%} of a core"
        )
        print(f"    of these in CPU seconds a step: {phases}")
    rounds = -(-len(METHODS) // arguments.processes)
    whole = rounds * max(result["startup"] + STEPS * result["step"] + result["end"] for result in results)
    alone = rounds * max(result["startup_cpu"] + STEPS * result["step_cpu"] for result in results)
    print(
        f"four methods x {STEPS} steps in {arguments.processes} processes: {whole:.0f} s on this machine now, "
        f"{alone:.0f} s in processor time (target <= {TARGET_SECONDS:.0f} s; the launcher comes on top)"
    )


def composed(method: str, steps: int, task: str) -> Any:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from harness.compose import CONF, Composer, register_methods

    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composer = Composer(GlobalHydra.instance().config_loader())
        return composer.compose([f"method={method}", f"task={task}", f"training.steps={steps}"])


def measure(method: str, steps: int, task: str) -> dict[str, Any]:
    """One run in this process, timed by phase."""
    from harness.engines.local import generation, trainer

    config = composed(method, steps, task)
    composing = time.perf_counter()
    from harness.store import RunStore

    phases: dict[str, float] = defaultdict(float)
    for module, name in (
        (trainer, "collect"),
        (generation, "sample"),
        (generation, "score_batch"),
        (trainer, "mini_batches"),
        (trainer, "update"),
    ):
        setattr(module, name, timed(getattr(module, name), name, phases))
    with tempfile.TemporaryDirectory() as folder:
        run = RunStore(Path(folder)).create(config)
        with run.lock("benchmark"):
            run.begin_attempt({})
            before, processor = time.perf_counter(), time.process_time()
            trainer.train(config, run)
            whole, processor = time.perf_counter() - before, time.process_time() - processor
        seconds = [row["seconds"] for row in run.metrics.rows()]
    spent = sum(seconds)
    imports, imports_cpu = import_seconds()
    return {
        "method": method,
        "startup": before - composing + imports,
        "startup_cpu": imports_cpu,
        "step_cpu": processor / steps,
        "step": median(seconds),
        "end": whole - spent,
        "cpu": processor / whole,
        "phases": {name: total / steps for name, total in phases.items()},
        "mebibytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def import_seconds() -> tuple[float, float]:
    """Wall and processor time from the start of an interpreter to the end of a worker's imports."""
    before, children = time.perf_counter(), os.times()
    code = "import harness.engines.local.trainer, harness.store, harness.pocket"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    processor = after.children_user + after.children_system - children.children_user - children.children_system
    return time.perf_counter() - before, processor


def timed(call: Callable[..., Any], name: str, phases: dict[str, float]) -> Callable[..., Any]:
    def wrapped(*given: Any, **named: Any) -> Any:
        before = time.process_time()
        try:
            return call(*given, **named)
        finally:
            phases[name] += time.process_time() - before

    return wrapped


if __name__ == "__main__":
    main()

"""What the run store and the pool cost beside training.

``python benchmarks/store.py [--runs 500]``: making runs, their states, appending metrics, taking a lock, a finished
matrix started again, and ``dry_run`` of a large one. Prints figures and their targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.config import RunConfig
from harness.store import Run, RunStore
from harness.store.status_sources import statuses

ROOT = Path(__file__).resolve().parents[1]
METHODS = "grpo,gdpo,dara_sym,dara_asym"


def template(folder: Path) -> RunConfig:
    """The default run, composed by the command itself and read back from what it stored."""
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf

    from harness.compose import CONF, register_methods, run_config_from_mapping

    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        content = OmegaConf.to_container(compose("config", [f"output.runs={folder}"]), resolve=True)
    assert isinstance(content, dict)
    return run_config_from_mapping({str(key): value for key, value in content.items()})


def finish(run: Run) -> None:
    """What a trained run leaves behind, without the training."""
    with run.lock("benchmark"):
        run.begin_attempt({})
        values = {f"{name}/{channel}": 0.123 for name in ("reward", "density", "energy", "weight") for channel in "abc"}
        lines = [
            {"reward/format": 0.9, "reward/correctness": 1.0, "density/format": 0.3, "seconds": 1.0, **values}
        ] * run.config.training.steps
        for step, line in enumerate(lines, start=1):
            run.metrics.append(step, line)
        run.write_evaluation("pocket", run.config.training.steps, {"n": 1, "metrics": {}})
        run.end_attempt("finished")


def seconds(*command: str) -> float:
    start = time.perf_counter()
    result = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        print(f"  {' '.join(command)} -> {result.returncode}: {result.stderr.strip()[-300:]}")
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        measure(Path(name), arguments.runs)


def measure(folder: Path, count: int) -> None:
    store = RunStore(folder / "runs")
    config = template(store.root)
    configs = [dataclasses.replace(config, seed=seed) for seed in range(count)]

    start = time.perf_counter()
    runs = [store.create(item) for item in configs]
    print(f"create {count} runs: {time.perf_counter() - start:.2f} s")

    start = time.perf_counter()
    for run in runs:
        finish(run)
    lines = count * config.training.steps
    print(f"log {lines} lines and {count} attempts: {(time.perf_counter() - start) / lines * 1e3:.2f} ms a line")

    run = store.create(dataclasses.replace(config, seed=count))
    times = []
    with run.lock("benchmark"):
        run.begin_attempt({})
        for step in range(1, 201):
            start = time.perf_counter()
            run.metrics.append(step, {f"key/{number}": 0.1 * number for number in range(30)})
            times.append(time.perf_counter() - start)
    print(
        f"append one line, on the disk: median {statistics.median(times) * 1e3:.2f} ms, max {max(times) * 1e3:.1f} ms"
    )

    start = time.perf_counter()
    for _ in range(50):
        with run.lock("benchmark"):
            pass
    print(f"take and release a lock: {(time.perf_counter() - start) / 50 * 1e3:.1f} ms")

    start = time.perf_counter()
    found = statuses(store.runs())
    done = sum(status.state == "done" for status in found.values())
    print(f"state of {len(found)} runs ({done} done): {time.perf_counter() - start:.2f} s")
    took = seconds("-m", "harness", "status", "--runs", str(store.root))
    print(f"python -m harness status, {len(found)} runs: {took:.1f} s")

    took = seconds("harness/run.py", "-m", "seed=range(0,10)", f"output.runs={store.root}")
    print(f"a finished matrix of 10 runs started again: {took:.1f} s (target 10 s)")
    took = seconds("harness/run.py", "-m", f"seed=range(0,{count})", f"output.runs={store.root}")
    print(f"a finished matrix of {count} runs started again: {took:.1f} s")
    seeds = f"seed=range(0,{count // 4})"
    took = seconds("harness/run.py", "-m", f"method={METHODS}", seeds, "dry_run=true", f"output.runs={folder / 'new'}")
    print(f"dry_run of {count // 4 * 4} new runs: {took:.1f} s (target 20 s for 500)")
    took = seconds("harness/run.py", "-m", f"seed=range(0,{count})", "dry_run=true", f"output.runs={store.root}")
    print(f"dry_run of {count} finished runs: {took:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"largest of these processes: {peak:.0f} MiB; load of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

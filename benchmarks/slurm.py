"""How long 1,000 runs take to be submitted, shown, submitted again and cancelled, on a real SLURM.

    python benchmarks/slurm.py [--runs 1000] [--evaluations]

Starts a cluster of its own on this machine (root and Debian's slurm-wlm and munge needed), submits pocket runs whose
jobs wait for an hour, and takes everything down again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
METHODS = "grpo,gdpo,dara_sym,dara_asym"
TARGETS = {"submit": 60.0, "status": 2.0, "submit again": 30.0, "cancel": 30.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="a multiple of 4 (default: %(default)s)")
    parser.add_argument("--evaluations", action="store_true", help="two checkpoints of each run, and a collect job")
    arguments = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "slurm"))
    from cluster import Cluster

    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        cluster = Cluster(Path(folder), port=17800)
        cluster.start()
        try:
            measure(cluster.environment, Path(folder) / "runs", arguments.runs, arguments.evaluations)
        finally:
            cluster.stop()
    return 0


def measure(environment: dict[str, str], runs: Path, count: int, evaluations: bool) -> None:
    launch = [sys.executable, str(ROOT / "harness" / "run.py"), "-m", f"method={METHODS}", f"seed=range({count // 4})"]
    launch += [f"output.runs={runs}", "hydra/launcher=slurm", "hydra.launcher.prepare=false"]
    launch += ["hydra.launcher.sbatch={begin: 'now+1hour'}"]
    launch += ["evaluate_at=[0,30]", "hydra.launcher.collect=true"] if evaluations else []
    status = [sys.executable, "-m", "harness", "status", "--runs", str(runs), "--json"]
    report("submit", launch, environment)
    calls = len(list(runs.glob(".slurm/submissions/*/job_id")))
    print(f"  sbatch calls: {calls} (target: at most 10)")
    output = report("status", status, environment)
    states = [item["state"] for item in json.loads(output).values()]
    print(f"  {', '.join(f'{states.count(state)} {state}' for state in sorted(set(states)))}")
    report("submit again", launch, environment)
    again = len(list(runs.glob(".slurm/submissions/*/job_id"))) - calls
    print(f"  sbatch calls: {again} (target: 0)")
    report("cancel", [sys.executable, "-m", "harness", "cancel", "*", "--runs", str(runs)], environment)
    left = subprocess.run(["squeue", "-h", "-r"], env=environment, capture_output=True, text=True, check=True).stdout
    print(f"  jobs left: {len(left.splitlines())} (target: 0)")


def report(what: str, command: list[str], environment: dict[str, str]) -> str:
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{what}: {seconds:.1f} s, {busy:.1f} s of them on a processor (target: at most {TARGETS[what]:.0f} s)")
    if done.returncode:
        print(done.stdout + done.stderr)
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

"""Times the analysis against its targets; prints figures, asserts nothing. CPU seconds and wall seconds of one process.

python benchmarks/analysis.py
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

from harness.analysis.collect import REFERENCE, collect, write
from harness.analysis.intervals import mean_over_questions

QUESTIONS, CHECKPOINTS, RESAMPLES = 1559, 60, 2000
RUNS, STEPS, METRICS = 200, 100, 20


def timed(action):
    wall, cpu = time.perf_counter(), time.process_time()
    action()
    return time.perf_counter() - wall, time.process_time() - cpu


def show(what: str, figure: str, target: str) -> None:
    print(f"{what:<62} {figure:<28} target {target}")


def bootstrap() -> None:
    rng = np.random.default_rng(0)
    accuracy = rng.binomial(16, rng.beta(0.5, 0.5, QUESTIONS), (CHECKPOINTS, QUESTIONS)) / 16
    mean_over_questions(accuracy[0], ("warm",))
    wall, cpu = timed(lambda: [mean_over_questions(row, ("cell", k)) for k, row in enumerate(accuracy)])
    show(
        f"{RESAMPLES} resamples x {QUESTIONS} questions x {CHECKPOINTS} checkpoints",
        f"{wall:.2f} s ({cpu:.2f} s CPU)",
        "20 s",
    )
    few = 5
    for method in ("BCa", "percentile"):

        def theirs(method: str = method) -> None:
            for row in accuracy[:few]:
                stats.bootstrap((row,), np.mean, n_resamples=RESAMPLES, method=method, rng=0)

        _, scipy_cpu = timed(theirs)
        show(
            f"  scipy.stats.bootstrap per cell, {method}",
            f"{scipy_cpu / few * CHECKPOINTS / cpu:.1f} x as long",
            "10 x",
        )


def runs(root: Path) -> None:
    """Folders as engines leave them, written directly: identities are not what is timed here."""
    from harness.compose import composing
    from harness.store import RunStore

    store = RunStore(root)
    with composing() as composer:
        config = composer.compose(["seed=0"])
    keys = ["reward/format", "density/format", *(f"metric/{k}" for k in range(METRICS - 2))]
    for seed in range(RUNS):
        run = store.create(dataclasses.replace(config, seed=seed))
        lines = [
            json.dumps({"schema": 1, "attempt": 1, "step": step, **dict.fromkeys(keys, step / 7)})
            for step in range(1, STEPS + 1)
        ]
        (run.path / "metrics.jsonl").write_text("\n".join(lines) + "\n")


def main() -> None:
    bootstrap()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        runs(root / "runs")
        wall, cpu = timed(lambda: write(collect(root / "runs", REFERENCE), root / "results"))
        show(f"collect {RUNS} runs x {STEPS} steps x {METRICS} metrics", f"{wall:.2f} s ({cpu:.2f} s CPU)", "10 s")


if __name__ == "__main__":
    main()

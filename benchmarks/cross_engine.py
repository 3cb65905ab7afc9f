"""Do the two engines learn the same? The pocket task, the same prompts and seeds, under ``local`` and under ``verl``.

    python benchmarks/cross_engine.py train   [KEY=VALUE ...] [--runs DIR] [--engines ...] [--methods ...] [--seeds ...]
    python benchmarks/cross_engine.py compare [--runs DIR] [--out DIR]

``train`` trains what is missing, one run at a time, and continues what was stopped (the environment needs verl, see
docs/verl.md; a verl run of 30 steps takes about three minutes on two idle cores). ``compare`` reads the runs alone: per
metric, method and step the mean over seeds of each engine; the gap between the engines beside the spread between seeds;
cross_engine.png and cross_engine.csv. Prints figures, asserts nothing.

The engines draw different random numbers, so single curves differ; what must agree is their distribution. One sampling
step apart the two are the same algorithm, with the differences listed in docs/deviations.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas

from harness.store import RunStore

METRICS = ("reward/correctness", "reward/format", "density/format", "weight/format", "entropy", "kl", "response_length")
ENGINES = ("local", "verl")
STEPS, RESPONSES, PROMPTS, WINDOW = 30, 64, 128, 5


def train(runs: Path, engines: list[str], methods: list[str], seeds: list[int], extra: list[str]) -> None:
    for engine in engines:
        command = [
            sys.executable,
            "harness/run.py",
            "-m",
            f"engine={engine}",
            "engine.device=cpu",
            f"method={','.join(methods)}",
            f"seed={','.join(map(str, seeds))}",
            f"training.steps={STEPS}",
            f"training.responses_per_step={RESPONSES}",
            "training.evaluate_every=10",
            f"training.evaluation_prompts={PROMPTS}",
            "output.checkpoint_every=10",
            f"output.runs={runs}",
            "hydra.launcher.workers=1",
            *(["engine.gpus_per_node=1"] if engine == "verl" else []),
            *extra,
        ]
        print(" ".join(command), flush=True)
        subprocess.run(command, check=False)


def tidy(runs: Path) -> pandas.DataFrame:
    """engine, method, seed, step, metric, value of every run in the folder."""
    rows = []
    for run in RunStore(runs).runs():
        config = run.config
        for row in run.metrics.read().rows:
            for metric in METRICS:
                if row.get(metric) is not None:
                    rows.append((config.engine.name, config.method.name, config.seed, row["step"], metric, row[metric]))
    return pandas.DataFrame(rows, columns=["engine", "method", "seed", "step", "metric", "value"])


def gaps(table: pandas.DataFrame) -> pandas.DataFrame:
    """Per method and metric, over windows of steps and the seeds' means in each: mean gap between the engines, mean
    spread of the seeds (standard deviation, ddof 1, the larger engine's), the share of windows in which the ranges of
    the engines' seeds overlap, and in which the gap is at most twice its standard error."""
    table = table.assign(window=(table["step"] - 1) // WINDOW)
    means = table.groupby(["method", "metric", "window", "engine", "seed"])["value"].mean().reset_index()
    answers = []
    for (method, metric), part in means.groupby(["method", "metric"]):
        found = []
        for _, window in part.groupby("window"):
            sides = [window.loc[window["engine"] == engine, "value"].to_numpy() for engine in ENGINES]
            if min(map(len, sides)) < 2:
                continue
            error = np.sqrt(sum(side.var(ddof=1) / len(side) for side in sides))
            gap = abs(sides[0].mean() - sides[1].mean())
            overlap = max(side.min() for side in sides) <= min(side.max() for side in sides)
            found.append((gap, max(side.std(ddof=1) for side in sides), overlap, gap <= 2 * error + 1e-12))
        if found:
            answers.append((method, metric, len(found), *np.mean(np.array(found, dtype=float), axis=0)))
    columns = ["method", "metric", "windows", "gap", "spread", "ranges_overlap", "within_2_se"]
    return pandas.DataFrame(answers, columns=columns)


def evaluations(runs: Path) -> pandas.DataFrame:
    """engine, method, seed, step, correctness and format of the held-out evaluations."""
    rows = []
    for run in RunStore(runs).runs():
        config = run.config
        for step in run.evaluations.steps("pocket"):
            metrics = run.evaluations.read("pocket", step)["metrics"]
            names = (config.engine.name, config.method.name, config.seed, step)
            rows.append((*names, metrics["reward/correctness"], metrics["reward/format"]))
    return pandas.DataFrame(rows, columns=["engine", "method", "seed", "step", "correctness", "format"])


def plot(table: pandas.DataFrame, path: Path) -> None:
    methods = sorted(table["method"].unique())
    figure, axes = plt.subplots(
        len(METRICS), len(methods), figsize=(4.5 * len(methods), 2.2 * len(METRICS)), squeeze=False
    )
    for column, method in enumerate(methods):
        for row, metric in enumerate(METRICS):
            axis = axes[row][column]
            for engine, color in zip(ENGINES, ("tab:blue", "tab:orange"), strict=True):
                chosen = table[(table.method == method) & (table.metric == metric) & (table.engine == engine)]
                if chosen.empty:
                    continue
                for _, curve in chosen.groupby("seed"):
                    axis.plot(curve["step"], curve["value"], color=color, alpha=0.3, linewidth=0.8)
                mean = chosen.groupby("step")["value"].mean()
                axis.plot(mean.index, mean.to_numpy(), color=color, linewidth=1.8, label=engine)
            axis.set_title(f"{method}: {metric}", fontsize=8)
            axis.tick_params(labelsize=7)
    axes[0][0].legend(fontsize=7)
    axes[-1][0].set_xlabel("step", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def compare(runs: Path, out: Path) -> None:
    table = tidy(runs)
    if table.empty:
        sys.exit(f"error: no runs in {runs}; python benchmarks/cross_engine.py train --runs {runs}")
    out.mkdir(parents=True, exist_ok=True)
    table.to_csv(out / "cross_engine.csv", index=False)
    plot(table, out / "cross_engine.png")
    print(table.groupby(["engine", "method"])["seed"].nunique().rename("seeds").to_string())
    print(f"\nby windows of {WINDOW} steps")
    print(gaps(table).to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    print("\nheld-out prompts, mean over seeds (standard deviation)")
    held_out = evaluations(runs).groupby(["method", "step", "engine"])[["correctness", "format"]]
    shown = held_out.agg(lambda part: f"{part.mean():.3f} ({part.std(ddof=1):.3f})").unstack("engine")
    print(shown.to_string())
    print(f"\n{out / 'cross_engine.png'}, {out / 'cross_engine.csv'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("train", "compare"))
    parser.add_argument("--runs", type=Path, default=Path("runs/cross_engine"))
    parser.add_argument("--out", type=Path, default=Path("results/cross_engine"))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--methods", nargs="+", default=["grpo", "dara_asym"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("extra", nargs="*", help="further overrides, KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.what == "train":
        train(arguments.runs, arguments.engines, arguments.methods, arguments.seeds, arguments.extra)
    else:
        compare(arguments.runs, arguments.out)


if __name__ == "__main__":
    main()

"""Tables of the pocket study from a runs folder, in Markdown: each run by setting; --flaws adds how flaws drift.

    python benchmarks/pocket_study.py RUNS_FOLDER [--flaws]

crossing: first step with a training format reward (maths: length reward) of at least 0.8; final: mean of the last 5;
score: sum over channels of the mean reward of the last 10 steps, each scaled to [0, 1] by the channel's bounds.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.config import RunConfig
from harness.store import RunStore

FLAW_STEPS = (1, 10, 20, 30, 40, 50, 60)


@dataclass(frozen=True)
class Curves:
    """The metrics of a finished run by name, NaN where a step has none."""

    config: RunConfig
    values: dict[str, np.ndarray]

    @property
    def watched(self) -> str:
        return "length" if self.config.task.name == "maths" else "format"

    @property
    def crossing(self) -> int | None:
        above = np.flatnonzero(self.values[f"reward/{self.watched}"] >= 0.8)
        return int(above[0]) + 1 if len(above) else None

    @property
    def score(self) -> float:
        return sum(
            (float(self.values[f"reward/{name}"][-10:].mean()) - bounds.low) / (bounds.high - bounds.low)
            for name, bounds in self.config.task.channels.items()
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--flaws", action="store_true")
    arguments = parser.parse_args()
    settings: dict[str, list[Curves]] = defaultdict(list)
    for run in RunStore(arguments.runs).runs():
        config, rows = run.config, run.metrics.rows()
        setting = (
            f"{config.task.name}, warm start {config.model.warm_start_seed}, lr {config.training.learning_rate:g}, "
            f"reward KL {config.training.reward_kl_methods}"
        )
        if len(rows) < config.training.steps:
            print(f"not finished: {run.run_id}, {len(rows)} steps")
            continue
        names = {name for row in rows for name in row}
        values = {name: np.array([_number(row.get(name)) for row in rows]) for name in names}
        settings[setting].append(Curves(config, values))
    for setting, curves in sorted(settings.items()):
        print(f"\n### {setting}\n")
        table(sorted(curves, key=lambda run: (run.config.method.name, run.config.seed)))
        if arguments.flaws:
            drift(curves)


def table(runs: list[Curves]) -> None:
    channels = list(runs[0].config.task.channels)
    columns = ["method", "seed", "crossing", "peak density (step)", "weight 1-5, last 5"]
    columns += [*(f"final {name}" for name in channels), "score", "entropy", "gradient max", "clipped max", "seconds"]
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for run in runs:
        density, weight = run.values[f"density/{run.watched}"], run.values[f"weight/{run.watched}"]
        cells = [
            run.config.method.name,
            run.config.seed,
            run.crossing or "-",
            f"{density.max():.2f} ({int(density.argmax()) + 1})",
            f"{weight[:5].mean():.2f}, {weight[-5:].mean():.2f}",
            *(f"{run.values[f'reward/{name}'][-5:].mean():.3f}" for name in channels),
            f"{run.score:.3f}",
            f"{run.values['entropy'][-5:].mean():.3f}",
            f"{np.nanmax(run.values['grad_norm']):.2f}",
            f"{np.nanmax(run.values['clip_fraction']):.3f}",
            f"{run.values['seconds'].sum():.0f}",
        ]
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
    print()
    for method in dict.fromkeys(run.config.method.name for run in runs):
        same = [run for run in runs if run.config.method.name == method]
        crossings = [run.crossing for run in same if run.crossing is not None]
        finals = ", ".join(
            f"{name} {np.mean([run.values[f'reward/{name}'][-5:].mean() for run in same]):.3f}" for name in channels
        )
        print(
            f"* {method}: crossed {len(crossings)}/{len(same)} at {crossings}; "
            f"score {np.mean([run.score for run in same]):.4f}; final {finals}"
        )


def drift(runs: list[Curves]) -> None:
    """Share of each kind of flaw, mean over seeds, at some steps."""
    kinds = sorted(name for name in runs[0].values if name.startswith("flaw/"))
    print("\n| method | flaw | " + " | ".join(f"step {step}" for step in FLAW_STEPS) + " |")
    print("|" + "---|" * (2 + len(FLAW_STEPS)))
    for method in sorted({run.config.method.name for run in runs}):
        for kind in kinds:
            curves = np.mean([run.values[kind] for run in runs if run.config.method.name == method], axis=0)
            cells = " | ".join(f"{curves[step - 1]:.2f}" for step in FLAW_STEPS if step <= len(curves))
            print(f"| {method} | {kind[5:]} | {cells} |")


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


if __name__ == "__main__":
    main()

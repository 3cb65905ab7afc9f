"""What `harness analyse` writes beside the verdicts."""

from __future__ import annotations

import argparse
import json

import pandas as pd
from analysis_store_runs import stored_run

from harness.analysis import analyse_command
from harness.analysis.collect import REFERENCE, collect, write


def log(steps: int, level: float) -> str:
    rows = ({"schema": 1, "attempt": 1, "step": step, "reward/format": level * step} for step in range(1, steps + 1))
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_numbers_of_the_pocket_task_are_of_one_setting_and_every_run_is_counted(tmp_path):
    for seed in (0, 1, 2):
        stored_run(tmp_path / "runs", log(5, 0.2), seed=seed, method="gdpo", steps=5)
    stored_run(tmp_path / "runs", log(2, 0.1), evaluated=2, seed=0, method="gdpo", steps=2)
    results = tmp_path / "results"
    write(collect(tmp_path / "runs", REFERENCE), results)
    parser = argparse.ArgumentParser()
    analyse_command.configure(parser)
    assert analyse_command.main(parser.parse_args(["--results", str(results)])) == 0
    metrics = json.loads((results / "metrics.json").read_text())
    assert metrics["pocket_gdpo"] == {"runs": 3, "reached_0.8_format": 3, "median_step": 4.0}
    assert metrics["runs"] == {"done": 4}
    curve = pd.read_csv(results / "analysis" / "pocket_format.csv")
    assert curve["reward_format"].round(9).tolist() == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert set(curve["method"]) == {"gdpo"}

"""From a folder of runs to tables: determinism, attempts, gaps, damage."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from analysis_store_runs import stored_run

from harness.analysis.collect import REFERENCE, collect, write
from harness.analysis.collect_runs import collect_runs, ranges
from harness.analysis.results import load_results
from harness.analysis.schema import COLUMNS, frame, write_table
from harness.errors import UserError


def line(step: int, attempt: int = 1, **values: object) -> str:
    return json.dumps({"schema": 1, "attempt": attempt, "step": step, "reward/format": step / 10, **values}) + "\n"


def findings(results, kind: str) -> list[str]:
    return results.findings.loc[results.findings["kind"] == kind, "detail"].tolist()


def test_tables_of_a_whole_run(tmp_path):
    run = stored_run(tmp_path, "".join(line(step) for step in range(1, 6)), seed=3, method="dara_asym")
    results = collect_runs(tmp_path)
    row = results.index.iloc[0]
    assert (row["run_id"], row["method"], row["seed"], row["last_step"]) == (run.run_id, "dara_asym", 3, 5)
    assert (row["task"], row["group_size"], row["responses_per_step"], row["state"]) == ("tool_calling", 4, 16, "done")
    assert results.curve(run.run_id, "reward/format").tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert results.evaluation(run.run_id, "pocket", "reward/format").to_dict() == {5: 1.0}
    assert results.findings.empty


def test_what_is_outside_the_identity_makes_no_cell_of_its_own(tmp_path):
    for seed in (0, 1):
        run = stored_run(tmp_path, line(1), seed=seed, method="dara_asym")
        path = run.path / "config.yaml"
        text = path.read_text().replace("  file: null\n", "  file: null\n  w_max: 4.0\n")
        if seed:
            text = text.replace("root: null", "root: /elsewhere").replace("nodes: 1", "nodes: 2")
            assert text.count("elsewhere") == 1
        path.write_text(text)
    index = collect_runs(tmp_path).index
    assert index["cell_id"].nunique() == 1
    assert set(index["parameters"]) == {'{"w_max": 4.0}'}


def test_cells_differ_in_the_seed_alone(tmp_path):
    for seed, method in ((0, "gdpo"), (1, "gdpo"), (0, "grpo")):
        stored_run(tmp_path, line(1), seed=seed, method=method)
    stored_run(tmp_path, line(1), seed=0, method="gdpo", steps=7)
    index = collect_runs(tmp_path).index
    assert index["cell_id"].nunique() == 3
    assert index["setting_id"].nunique() == 2


def test_the_last_attempt_wins_and_the_overlap_is_reported(tmp_path):
    text = "".join(line(step) for step in (1, 2, 3)) + line(3, 2, x=9.0) + line(4, 2)
    run = stored_run(tmp_path, text)
    results = collect_runs(tmp_path)
    table = results.metrics
    assert table.loc[table["step"] == 3, "attempt"].unique().tolist() == [2]
    assert results.curve(run.run_id, "x").to_dict() == {3: 9.0}
    assert findings(results, "overlap") == ["steps 3 were logged more than once; the last attempt counts"]


def test_steps_of_an_earlier_attempt_that_are_not_reached_again(tmp_path):
    run = stored_run(tmp_path, "".join(line(step) for step in range(1, 6)) + line(2, 2), evaluated=5)
    results = collect_runs(tmp_path)
    assert results.curve(run.run_id, "reward/format").index.tolist() == [1, 2]
    assert "steps 3-5 of an earlier attempt are not reached again" in findings(results, "overlap")
    assert findings(results, "evaluation_ahead")


def test_gaps_damaged_lines_and_strange_numbers(tmp_path):
    text = line(1) + "not json\n" + line(3, kl="NaN", loss=None) + line(6) + '{"schema": 1, "att'
    run = stored_run(tmp_path, text)
    results = collect_runs(tmp_path)
    assert findings(results, "gap") == ["steps 2, 4-5 are missing"]
    assert "line 2" in findings(results, "unreadable_line")[0]
    assert len(findings(results, "unfinished_line")) == 1
    assert findings(results, "not_finite") == ["kl: no finite number at steps 3"]
    assert results.curve(run.run_id, "kl").isna().all()
    assert results.curve(run.run_id, "loss") is None


def test_unreadable_runs_are_listed(tmp_path):
    damaged = stored_run(tmp_path, line(1), seed=1)
    (damaged.path / "config.yaml").write_text("seed: [")
    broken = stored_run(tmp_path, line(1), seed=2)
    (broken.path / "evals" / "pocket" / "5.json").write_text("{")
    (tmp_path / "something").mkdir()
    results = collect_runs(tmp_path)
    assert results.index.set_index("run_id").loc[damaged.run_id, "state"] == "damaged"
    kinds = results.findings.groupby("kind")["run_id"].apply(set).to_dict()
    assert damaged.run_id in kinds["damaged"]
    assert broken.run_id in kinds["evaluation"]
    assert kinds["not_a_run"] == {"something"}


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_byte_for_byte(tmp_path):
    runs = tmp_path / "runs"
    for seed in (2, 0, 1):
        stored_run(runs, line(1) + line(2), seed=seed)
    results = collect(runs, REFERENCE)
    write(results, tmp_path / "a")
    write(collect(runs, REFERENCE), tmp_path / "b")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    for name in COLUMNS:  # also from rows in any order
        write_table(tmp_path / "c", name, getattr(results, name).sample(frac=1, random_state=0))
    assert digest(tmp_path / "c") == digest(tmp_path / "a")


def test_written_tables_read_back_equal(tmp_path):
    stored_run(tmp_path / "runs", line(1))
    results = collect(tmp_path / "runs", REFERENCE)
    write(results, tmp_path / "results")
    loaded = load_results(tmp_path / "results")
    for name in COLUMNS:
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(results, name))
    assert set(loaded.index["source"]) == {"ours", "published"}


def test_bad_tables_say_what_to_do(tmp_path):
    with pytest.raises(UserError, match="python -m harness collect"):
        load_results(tmp_path)
    (tmp_path / "index.parquet").write_bytes(b"no parquet")
    with pytest.raises(UserError, match="cannot be read"):
        load_results(tmp_path)
    pd.DataFrame({"run_id": ["a"]}).to_parquet(tmp_path / "index.parquet")
    with pytest.raises(UserError, match="another version"):
        load_results(tmp_path)
    with pytest.raises(ValueError, match="no columns"):
        frame("index", pd.DataFrame({"unknown": [1]}))


def test_ranges():
    assert ranges([3, 1, 2, 7]) == "1-3, 7"


def harness(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "harness", *arguments], capture_output=True, text=True)


def test_commands_as_documented(tmp_path):
    for method, last in (("dara_asym", 5), ("gdpo", 4)):
        for seed in range(3):
            stored_run(tmp_path / "runs", "".join(line(step) for step in range(1, last + 1)), seed=seed, method=method)
    results = str(tmp_path / "results")
    done = harness("collect", "--runs", str(tmp_path / "runs"), "--results", results)
    assert done.returncode == 0, done.stderr
    assert "6 runs of ours" in done.stdout
    done = harness(
        "compare", "method=dara_asym", "against=gdpo", "metric=first_step/reward/format@0.2", "--results", results
    )
    assert done.returncode == 0, done.stderr
    assert "smallest possible" in done.stdout
    done = harness("compare", "method=dara_asim", "against=gdpo", "metric=reward/format", "--results", results)
    assert done.returncode == 2
    assert "did you mean 'dara_asym'" in done.stderr
    assert "Traceback" not in done.stderr
    done = harness("verdicts", "--results", results, "--view", "published")
    assert done.returncode == 0, done.stderr
    assert "DARA-Asym reaches a format reward of 0.8 before GDPO" in done.stdout

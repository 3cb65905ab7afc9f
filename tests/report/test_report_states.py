"""Runs as they are in practice: failed, running, unreadable, unevaluated, alone; and methods that were never run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from store_configs import small_config

from harness.analysis.collect import REFERENCE, collect
from harness.report.page import render
from harness.store import Run, RunStore

STEPS = 5
TABLES = ("table_learning_speed", "table_pocket")
FIGURES = ("fig01_format_density", "fig02_bfcl", "fig_seeds", "fig_time_to_threshold")


def made(store: RunStore, method: str, seed: int, *, logged: int = STEPS, evaluated: bool = True) -> Run:
    run = store.create(small_config(method=method, seed=seed, steps=STEPS))
    with run.lock("test"):
        run.begin_attempt({})
        for step in range(1, logged + 1):
            share = min(1.0, 0.2 * step + 0.1 * seed)
            row = {"reward/correctness": share, "reward/format": share, "density/format": 0.3, "density/correctness": 1}
            run.metrics.append(step, row)
        if evaluated:
            folder = run.path / "evals" / "pocket"
            folder.mkdir(parents=True, exist_ok=True)
            metrics = {"reward/format": 1.0, "reward/correctness": 2.0}
            content = {"schema": 1, "benchmark": "pocket", "step": STEPS, "n": 8, "metrics": metrics}
            (folder / f"{STEPS}.json").write_text(json.dumps(content))
    return run


@pytest.fixture(scope="module")
def odd(build, tmp_path_factory) -> tuple[Path, dict[str, Run]]:
    root = tmp_path_factory.mktemp("odd")
    store = RunStore(root / "runs")
    runs = {f"gdpo {seed}": made(store, "gdpo", seed) for seed in range(3)}
    runs["alone"] = made(store, "dara_asym", 0)
    runs["unevaluated"] = made(store, "dara_sym", 0, evaluated=False)
    runs["failed"] = made(store, "grpo", 0, logged=2, evaluated=False)
    failed = runs["failed"]
    with failed.lock("test"):
        failed.begin_attempt({})
        failed.end_attempt("failed", "loss is <not> a number")
    runs["unreadable"] = made(store, "grpo", 1)
    (runs["unreadable"].path / "manifest.json").write_text("{")
    runs["running"] = made(store, "grpo", 2, logged=3, evaluated=False)
    with runs["running"].lock("test"):
        runs["running"].begin_attempt({})
        folder = build(store.root, root / "results", TABLES, FIGURES)
    return folder, runs


@pytest.fixture(scope="module")
def page(odd) -> str:
    return render(odd[0])


def row_of(page: str, run_id: str) -> str:
    section = page.split('<section id="runs">')[1].split("</section>")[0]
    return next(row for row in section.split("<tr>") if f">{run_id}<" in row)


def test_every_run_is_there_with_its_state_and_why(page, odd):
    states = {"failed": "failed", "unreadable": "damaged", "running": "running", "alone": "done"}
    for name, state in states.items():
        assert f'<span class="badge {state}">' in row_of(page, odd[1][name].run_id)
    assert "loss is &lt;not&gt; a number" in row_of(page, odd[1]["failed"].run_id)
    assert "manifest.json" in row_of(page, odd[1]["unreadable"].run_id)
    assert ">interrupted<" in row_of(page, odd[1]["unevaluated"].run_id)


def test_runs_that_are_not_done_come_first_and_are_shown(page, odd):
    section = page.split('<section id="runs">')[1].split("</section>")[0]
    assert "<details open>" in section
    places = [section.index(odd[1][name].run_id) for name in ("failed", "unreadable", "running", "unevaluated")]
    assert max(places) < section.index(odd[1]["alone"].run_id)


def test_the_summary_counts_the_states(page):
    line = page.split('<section id="short">')[1].split("</li>")[0]
    assert "8 at pocket scale" in line
    for part in ("1 damaged", "4 done", "1 failed", "1 interrupted", "1 running"):
        assert part in line


def test_one_run_has_no_interval(odd):
    table = json.loads((odd[0] / "tables" / "table_pocket.json").read_text())
    rows = {row["label"]: row["cells"] for row in table["rows"]}
    alone, three = rows["DARA-Asym"]["reward/format"], rows["GDPO"]["reward/format"]
    assert (alone["n"], alone["low"]) == (1, None)
    assert three["n"] == 3
    assert three["low"] < three["value"] < three["high"]


def test_a_missing_evaluation_is_an_empty_cell_with_its_reason(odd):
    table = json.loads((odd[0] / "tables" / "table_pocket.json").read_text())
    rows = {row["label"]: row["cells"] for row in table["rows"]}
    cell = rows["DARA-Sym"]["pocket:reward/format"]
    assert cell["value"] is None
    assert cell["why"]


def test_claims_about_a_method_that_was_never_run_say_so(page, odd):
    content = json.loads((odd[0] / "analysis" / "verdicts.json").read_text())
    assert {row["verdict"] for row in content["claims"] if row["view"] == "paper"} == {"not run"}
    assert "not run: no value of dara_asym" in page.replace("&#39;", "'")


def test_a_method_without_weights_has_none_in_its_diagnosis(page):
    assert "nan" not in page.split('<section id="diagnosis">')[1].split("</section>")[0]


def test_the_kl_note_stands_where_grpo_never_came(page, results):
    assert "training.reward_kl_methods=none" in page
    assert "training.reward_kl_methods=none" not in render(results)


def test_figures_name_the_runs_that_are_not_finished(odd):
    words = json.loads((odd[0] / "figures" / "fig01_format_density.json").read_text())
    assert "not finished" in words["caption"]
    assert odd[1]["failed"].run_id in words["run_ids"]


def test_nothing_of_ours_is_dropped_on_the_way(odd):
    index = collect(odd[1]["alone"].path.parent, REFERENCE).index
    assert {run.run_id for run in odd[1].values()} == set(index[index["source"] == "ours"]["run_id"])

"""Results by question: read beside an evaluation, put together as the metric is, compared over the same questions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from analysis_store_runs import stored_run

from harness.analysis.collect import write
from harness.analysis.collect_runs import collect_runs
from harness.analysis.compare import compare
from harness.analysis.quantities import parse
from harness.analysis.questions import NoQuestions, difference_over_questions, part_weights, question_values
from harness.analysis.results import Results, load_results
from harness.evaluation.bfcl.categories import CASES, groups

ACCURACY = parse("maths:accuracy@5")
PARTS = {"math500": 40, "aime_2024": 6}


def samples(skill: float, seed: int) -> pd.DataFrame:
    """Two samples of each question, as an evaluation stores them: the difficulty of a question is the same for all."""
    rng = np.random.default_rng(seed)
    rows = []
    for part, count in PARTS.items():
        for number, easy in enumerate(np.random.default_rng(99).random(count)):
            for sample in range(2):
                right = float(rng.random() < min(easy * skill, 1))
                row = {"benchmark": part, "question": f"{part}/{number}", "sample": sample, "tokens": 7}
                rows.append({**row, "finish": "stop", "accuracy": right, "failure_no_box": False})
    return pd.DataFrame(rows)


def macro(table: pd.DataFrame) -> float:
    by_question = table.groupby(["benchmark", "question"])["accuracy"].mean()
    return float(by_question.groupby(level="benchmark").mean().mean())


def evaluated(root: Path, method: str, seed: int, table: pd.DataFrame, accuracy: float | None = None) -> str:
    line = "".join(f'{{"schema": 1, "attempt": 1, "step": {step}, "reward/format": 0.5}}\n' for step in range(1, 6))
    run = stored_run(root, line, seed=seed, method=method)
    metrics = {"accuracy": macro(table) if accuracy is None else accuracy}
    for part, rows in table.groupby("benchmark"):
        metrics[f"accuracy/{part}"] = float(rows.groupby("question")["accuracy"].mean().mean())
    run.write_evaluation("maths", 5, {"n": len(table), "metrics": metrics}, table)
    return run.run_id


def collected(root: Path, seeds: int) -> Results:
    for seed in range(seeds):
        evaluated(root, "dara_asym", seed, samples(1.6, seed))
        evaluated(root, "gdpo", seed, samples(1.0, seed))
    return collect_runs(root)


def of(results: Results, method: str) -> dict[str, int]:
    return dict.fromkeys(results.index.loc[results.index["method"] == method].sort_values("seed")["run_id"], 5)


def test_samples_are_averaged_by_question(tmp_path):
    table = samples(1.0, 0)
    run_id = evaluated(tmp_path, "gdpo", 0, table)
    results = collect_runs(tmp_path)
    assert set(results.questions["metric"]) == {"accuracy", "tokens", "failure/no_box"}
    rows = results.questions_of(run_id, "maths", 5)
    one = rows[(rows["question"] == "math500/3") & (rows["metric"] == "accuracy")].iloc[0]
    wanted = table.loc[table["question"] == "math500/3", "accuracy"].mean()
    assert (one["part"], one["value"], one["samples"]) == ("math500", wanted, 2)
    write(results, tmp_path / "results")
    again = load_results(tmp_path / "results")
    pd.testing.assert_frame_equal(again.questions, results.questions)
    assert again.restrict(again.runs()).questions.equals(results.questions)


def test_a_damaged_file_is_a_finding(tmp_path):
    run_id = evaluated(tmp_path, "gdpo", 0, samples(1.0, 0))
    (tmp_path / run_id / "evals" / "maths" / "5.parquet").write_bytes(b"PAR1")
    results = collect_runs(tmp_path)
    assert results.questions.empty
    assert results.findings["detail"].str.contains("evals/maths/5.parquet").any()
    assert results.evaluation(run_id, "maths", "accuracy") is not None


def test_a_metric_is_put_together_from_its_parts():
    assert part_weights("maths", "accuracy", ["math500", "aime_2024"])[1] == {"math500": 0.5, "aime_2024": 0.5}
    assert part_weights("maths", "accuracy/aime_2024", ["math500", "aime_2024"]) == ("accuracy", {"aime_2024": 1.0})
    assert part_weights("pocket", "reward/format", [""]) == ("reward/format", {"": 1.0})
    values = {name: number / 14 for number, name in enumerate(CASES)}
    for group, wanted in groups(values).items():
        column, weights = part_weights("bfcl_v4", f"format/{group}", CASES)
        assert column == "format"
        assert sum(weight * values[name] for name, weight in weights.items()) == pytest.approx(wanted)
    with pytest.raises(NoQuestions, match="multi_turn_base"):
        part_weights("bfcl_v4", "accuracy/multi_turn", ["live_simple"])


def test_questions_give_the_stored_metric_or_are_not_used(tmp_path):
    table = samples(1.0, 0)
    run_id = evaluated(tmp_path, "gdpo", 0, table)
    series, weights = question_values(collect_runs(tmp_path), run_id, ACCURACY, 5)
    assert len(series) == 46
    assert sum(series[part].mean() * weight for part, weight in weights.items()) == pytest.approx(macro(table))
    run_id = evaluated(tmp_path, "grpo", 0, table, accuracy=0.123)
    with pytest.raises(NoQuestions, match="do not give its maths:accuracy"):
        question_values(collect_runs(tmp_path), run_id, ACCURACY, 5)


def test_one_pair_of_runs_by_hand(tmp_path):
    """One part of two questions: the difference of a resample is -1, 0 or 1 with probability 1/4, 1/2, 1/4."""
    for method, values in (("dara_asym", [1.0, 0.0]), ("gdpo", [0.0, 1.0])):
        table = pd.DataFrame({"benchmark": "math500", "question": ["a", "b"], "accuracy": values})
        evaluated(tmp_path, method, 0, table)
    results = collect_runs(tmp_path)
    found = difference_over_questions(
        results, of(results, "dara_asym"), of(results, "gdpo"), ACCURACY, ("k",), paired=True, level=0.4
    )
    assert (found.estimate, found.low, found.high, found.n) == (0, 0, 0, 2)
    assert found.note == "it says nothing about other seeds"
    wide = difference_over_questions(
        results, of(results, "dara_asym"), of(results, "gdpo"), ACCURACY, ("k",), paired=True, level=0.6
    )
    assert (wide.low, wide.high) == (-1, 1)


def test_pairing_and_more_seeds(tmp_path):
    results = collected(tmp_path, 5)
    a, b = of(results, "dara_asym"), of(results, "gdpo")
    paired = difference_over_questions(results, a, b, ACCURACY, ("k",), paired=True)
    unpaired = difference_over_questions(results, a, b, ACCURACY, ("k",), paired=False)
    ends = [results.evaluation(name, "maths", "accuracy")[5] for name in (*a, *b)]
    assert paired.estimate == pytest.approx(np.mean(ends[:5]) - np.mean(ends[5:]))
    assert unpaired.estimate == pytest.approx(paired.estimate)
    assert paired.low < paired.estimate < paired.high
    assert paired.note == unpaired.note == ""
    assert "within each part, paired" in paired.method
    assert difference_over_questions(results, a, b, ACCURACY, ("k",), paired=True) == paired
    first = dict([*a.items()][:1])
    fixed = difference_over_questions(results, first, b, ACCURACY, ("k",), paired=False)
    assert "other seeds" in fixed.note


def test_questions_that_one_side_lacks_are_counted(tmp_path):
    evaluated(tmp_path, "dara_asym", 0, samples(1.6, 0))
    table = samples(1.0, 0)
    evaluated(tmp_path, "gdpo", 0, table[table["question"] != "math500/7"])
    results = collect_runs(tmp_path)
    found = difference_over_questions(
        results, of(results, "dara_asym"), of(results, "gdpo"), ACCURACY, ("k",), paired=True
    )
    assert found.n == 45
    assert "1 questions are not shared" in found.note


def test_coverage_over_questions():
    """Two fixed runs, new questions each time, two parts of unequal size."""
    rng = np.random.default_rng(3)
    hits = []
    for repeat in range(100):
        rows = []
        for part, count, gain in (("a", 80, 0.1), ("b", 30, 0.0)):
            easy = rng.beta(1, 1, count)
            for method, chance in (("x", np.minimum(easy + gain, 1)), ("y", easy)):
                values = rng.binomial(16, chance) / 16
                rows += [(method, "ours", "maths", 5, part, str(q), "accuracy", v, 16) for q, v in enumerate(values)]
        names = ["run_id", "source", "benchmark", "step", "part", "question", "metric", "value", "samples"]
        results = Results.of(pd.DataFrame(), questions=pd.DataFrame(rows, columns=names))
        found = difference_over_questions(
            results, {"x": 5}, {"y": 5}, ACCURACY, ("coverage", repeat), paired=True, resamples=400
        )
        hits.append(found.contains((0.1 - 0.1**2 / 2) / 2))
    assert 0.88 <= np.mean(hits) <= 0.99


def test_compare_says_both(tmp_path, capsys):
    from harness import cli

    results = collected(tmp_path / "runs", 3)
    found = compare(results, results.runs(), "maths:accuracy", "dara_asym", "gdpo")
    assert found.paired
    assert found.over_questions is not None
    assert found.over_questions.estimate == pytest.approx(found.difference.estimate)
    assert compare(results, results.runs(), "reward/format", "dara_asym", "gdpo").over_questions is None
    write(results, tmp_path / "results")
    words = ["method=dara_asym", "against=gdpo", "metric=maths:accuracy", "--results", str(tmp_path / "results")]
    assert cli.main(["compare", *words]) == 0
    assert "over 46 questions 0." in capsys.readouterr().out

"""What the analysis must find in the published record (arXiv 2610.00574)."""

from __future__ import annotations

import pytest

from harness.analysis.collect import REFERENCE
from harness.analysis.crossings import crossings, learning_speed
from harness.analysis.density import density_summary, energy_ratio, metrics_table, peak
from harness.analysis.published import FIRST_STEP, published
from harness.analysis.published_findings import published_findings
from harness.analysis.quantities import values
from harness.analysis.selection import Selection, summary
from harness.analysis.thresholds import first_crossing
from harness.errors import UserError

TABLE_1 = {
    ("qwen2.5-1.5b", "grpo"): ((48.46, 0.36), (81.01, 5.18)),
    ("qwen2.5-1.5b", "gdpo"): ((50.37, 1.12), (97.11, 1.00)),
    ("qwen2.5-1.5b", "dara_asym"): ((50.59, 0.90), (97.90, 0.34)),
    ("qwen2.5-1.5b", "dara_sym"): ((51.17, 0.78), (97.55, 0.64)),
    ("qwen2.5-3b", "dara_asym"): ((53.63, 1.18), (96.50, 1.08)),
    ("qwen2.5-3b", "dara_sym"): ((54.15, 0.58), (97.22, 0.66)),
}


def test_table_1_means_and_sample_deviations(published_results):
    runs = published_results.runs(study="tool_calling_main")
    for column, quantity in enumerate(("bfcl_v4:accuracy/average@100", "bfcl_v4:format/average@100")):
        table = summary(published_results, runs, quantity, Selection({})).set_index(["model", "method", "view"])
        for (model, method), cells in TABLE_1.items():
            row = table.loc[(model, method, "all")]
            assert round(100 * row["mean"], 2) == cells[column][0]
            assert round(100 * row["sd"], 2) == cells[column][1]


def test_selected_runs_never_stand_without_all_runs(published_results):
    runs = published_results.runs(study="tool_calling_main", model="qwen2.5-1.5b")
    table = summary(published_results, runs, "bfcl_v4:format/average@100", Selection({})).set_index(["method", "view"])
    for method, everyone, selected in (("dvao", (61.87, 43.45), 93.52), ("gd2po_hard", (60.59, 49.10), 96.35)):
        row = table.loc[(method, "all")]
        assert (round(100 * row["mean"], 2), round(100 * row["sd"], 2), row["n"]) == (*everyone, 5)
        chosen = table.loc[(method, "selected")]
        assert (round(100 * chosen["mean"], 2), chosen["n"], len(chosen["left_out"])) == (selected, 3, 2)
        assert "Format < 0.8" in chosen["note"]
    assert ("gdpo", "selected") not in table.index


def test_crossings_of_each_seed_and_their_medians(published_results):
    runs = published_results.runs(study="tool_calling_main", model="qwen2.5-1.5b")
    table = learning_speed(published_results, runs, "reward/format", 0.8).set_index("method")
    per_seed = {
        "grpo": ("37", "43", "34", "31", "31"),
        "gdpo": ("18", "19", "75", "16", "65"),
        "dara_sym": ("14", "16", "15", "13", "29"),
        "dara_asym": ("15", "14", "13", "13", "16"),
    }
    for method, median in {"grpo": 34, "gdpo": 19, "dara_sym": 15, "dara_asym": 14}.items():
        assert table.loc[method, "per_seed"] == per_seed[method]
        assert table.loc[method, "median"] == median
    assert (table.loc["dvao", "reached"], table.loc["dvao", "n"]) == (2, 5)


def test_crossings_3b(published_results):
    runs = published_results.runs(study="tool_calling_main", model="qwen2.5-3b")
    table = crossings(published_results, runs, "reward/format", 0.8)
    by_method = {method: part.sort_values("seed")["at"].tolist() for method, part in table.groupby("method")}
    assert by_method["grpo"] == [19, 19, 20, 21, 18]
    assert by_method["gdpo"] == [14, 11, 9, 12, 12]
    assert by_method["dara_sym"] == [10, 9, 10, 11, 10]
    assert by_method["dara_asym"] == [10, 10, 9, 9, 10]
    seen_later = table[table["method"] == "dvao"]
    assert (seen_later["basis"] == "few observations").all()


def test_median_curves_and_density_peaks(published_results):
    medians = published_results.runs(kind="median", study="tool_calling_main")
    expected = {
        "grpo": (34, 0.447, 28),
        "gdpo": (19, 0.365, 14),
        "dara_sym": (15, 0.512, 10),
        "dara_asym": (14, 0.512, 10),
    }
    for method, (step, top, at) in expected.items():
        name = f"published:figure1-qwen2.5-1.5b-{method}-median"
        assert first_crossing(published_results.curves("reward/format", medians)[name], 0.8).at == step
        found = peak(published_results.curves("density/format", medians)[name])
        assert (round(found.value, 3), found.step) == (top, at)


def test_energy_ratios_and_first_capped_steps(published_results):
    runs = published_results.runs(study="maths_energy")
    steps = density_summary(published_results, runs, "length").set_index("run_id")["first_cap_step"]
    for model, step in {"r1-1.5b": 59, "qwen3-4b": 62, "r1-7b": 48}.items():
        name = f"published:maths_energy-{model}-dara"
        assert steps[name] == step
        table = metrics_table(published_results, name)
        ratio = energy_ratio(table, "length", "correctness")
        assert (ratio - table["energy_ratio/length/correctness/gdpo"]).abs().max() < 2e-4


def test_public_curves_agree_with_the_stated_crossings(published_results):
    for name in ("grpo", "gdpo", "dara"):
        curve = published_results.curve(f"published:1.5b-{name}-s0", "reward/format")
        stated = published_results.curve(f"published:1.5b-{name}-s0", FIRST_STEP)
        assert len(curve) == 100
        assert first_crossing(curve, 0.8).at == stated.iloc[0]


def test_stable_crossings_as_drawn(published_results):
    runs = published_results.runs(study="maths_thresholds", model="r1-7b", method=["gdpo", "dara_asym", "dara_sym"])
    table = values(published_results, runs, "stable_step/reward/length@0.99").set_index("method")["value"]
    assert table.to_dict() == {"dara_asym": 56, "dara_sym": 50, "gdpo": 142}


def test_differences_are_findings(published_results):
    found = published_findings(published_results)
    text = "\n".join(found["kind"] + " " + found["run_id"] + " " + found["detail"])
    for expected in (
        "gd2po_hard step 100 accuracy/average: printed mean 50.13%, per-run record 50.70% (n = 3)",
        "gd2po_hard step 100 format/average: printed mean 95.52%, per-run record 96.35% (n = 3)",
        "gd2po_hard step 60 format/average: printed mean 90.11%, per-run record 90.09% (n = 1)",
        "qwen2.5-3b dara_asym step 100: 5 runs stated, 4 in the record",
        "qwen2.5-1.5b dvao step 100: 5 runs stated, 3 in the record",
        "61.87% +-43.45% with them",
        "60.59% +-49.10% with them",
        "the public record ends at step 76",
        "qwen2.5-1.5b gdpo seed 5: 0.958",
        "training format 0.393, validation format 0.963",
        "dara_asym G 8: 2 runs drawn, 3 stated",
    ):
        assert expected in text, expected
    for row in found.itertuples():  # both values stay in the tables
        assert row.run_id in set(published_results.index["run_id"])


def test_a_changed_number_becomes_a_finding(published_results, tmp_path):
    for file in REFERENCE.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    status = tmp_path / "training_status_reference.csv"
    status.write_text(status.read_text().replace("1.5B,grpo,0,100,37,", "1.5B,grpo,0,100,36,"))
    before, after = (set(published_findings(item)["detail"]) for item in (published_results, published(tmp_path)))
    assert "stated first step 36, its public curve gives 37.0" in after - before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"bfcl_v4_final_per_run\.csv"):
        published(tmp_path)

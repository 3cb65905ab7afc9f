"""The page: complete without runs, honest with odd ones, safe against what stands in files, usable in a browser."""

from __future__ import annotations

import json
import shutil

import pytest

from harness.errors import UserError
from harness.report.page import render


@pytest.fixture(scope="module")
def page(results) -> str:
    return render(results)


def test_the_page_has_every_part_without_a_single_run(page):
    for part in (
        "short",
        "matrix",
        "claims",
        "figures",
        "tables",
        "diagnosis",
        "runs",
        "findings",
        "deviations",
        "cite",
    ):
        assert f'<section id="{part}">' in page
    assert "None yet." in page
    assert "51.17" in page


def test_missing_runs_come_with_the_command_that_makes_them(page):
    assert "python harness/run.py -m study=pocket</code>" in page
    assert "python harness/run.py -m study=big hydra/launcher=slurm</code>" in page


def test_the_page_needs_no_network(page):
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "default-src 'none'" in page


def test_size(page):
    assert len(page.encode()) < 5_000_000


def test_text_from_files_is_escaped(results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    path = copy / "tables" / "table01_bfcl.json"
    table = json.loads(path.read_text())
    table["rows"][0]["label"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(table))
    assert "<script>alert(1)" not in render(copy)
    assert "&lt;script&gt;alert(1)" in render(copy)


def test_a_damaged_table_is_named(results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    (copy / "tables" / "table01_bfcl.json").write_text("{")
    with pytest.raises(UserError, match=r"table01_bfcl\.json"):
        render(copy)


def test_no_results_is_one_line(tmp_path):
    with pytest.raises(UserError, match="collect"):
        render(tmp_path)


def test_a_figure_of_an_older_version_is_named(results, tmp_path):
    copy = tmp_path / "results"
    shutil.copytree(results, copy)
    path = copy / "figures" / "fig_weights.json"
    words = json.loads(path.read_text())
    del words["width"]
    path.write_text(json.dumps(words))
    with pytest.raises(UserError, match="python -m figures fig_weights"):
        render(copy)


def test_the_summary_sets_the_experiments_side_by_side(page):
    speed = page.split('<table aria-describedby="speed">')[1].split("</table>")[0]
    assert "Qwen2.5-1.5B, published" in speed
    rows = {row.split("</th>")[0].split(">")[-1]: row for row in speed.split("<tr>")[2:]}
    assert "14 (5/5)" in rows["DARA-Asym"]
    assert "not by half (2/5)" in rows["DVAO"]


def test_claims_come_with_numbers_test_and_reason(page):
    claim = page.split("DARA-Sym ends with a higher BFCL format than GRPO (1.5B)")[1].split("</li>")[0]
    assert "dara_sym 97.55% (n = 5); grpo 81.01% (n = 5)" in claim
    assert "mean difference to grpo +16.54 points [+10.78, +22.30], p = 0.0312" in claim
    assert "one-sided sign flips of paired differences, exact, alpha 0.05" in claim


def test_deviations_are_rendered_with_their_tables(page):
    deviations = page.split('<section id="deviations">')[1].split("</section>")[0]
    assert "<table>" in deviations
    assert "<h1" not in deviations


def test_empty_tables_say_that_their_numbers_are_the_published_ones(page):
    assert page.count("Published numbers; no run of ours is in this table yet.") == 1

"""Tables: published values land where the paper prints them, renderings are faithful, gaps are explained."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.analysis.collect import REFERENCE, collect
from paper_tables import render
from paper_tables.__main__ import main, module, names, needs_results
from paper_tables.cells import with_best
from paper_tables.table import Cell, Column, Row, Table


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return collect(tmp_path_factory.mktemp("no-runs"), REFERENCE)


@pytest.fixture(scope="module")
def tables(published):
    return {name: module(name).build(*[published] * needs_results(name)) for name in names()}


def cell(table: Table, section: str, label: str, column: str) -> Cell:
    (row,) = [row for row in table.rows if row.label == label and row.section.startswith(section)]
    return row.cells[column]


def test_table_1_shows_the_printed_means(tables):
    table = tables["table01_bfcl"]
    assert cell(table, "Qwen2.5-1.5B", "DARA-Sym", "accuracy/average").published == pytest.approx(51.17)
    assert cell(table, "Qwen2.5-1.5B", "GRPO", "format/multi_turn").published == pytest.approx(43.24)
    assert cell(table, "Qwen2.5-3B", "GDPO", "format/average").published == pytest.approx(96.57)
    assert cell(table, "Qwen2.5-1.5B", "base", "accuracy/average").published == pytest.approx(7.25)
    assert cell(table, "Qwen2.5-1.5B", "GDPO", "accuracy/average").why == "not run"


def test_the_selection_table_shows_what_leaving_runs_out_does(tables):
    rows = {(row.section, row.label, row.cells["view"].value): row.cells for row in tables["table_selection"].rows}
    everything = rows["Qwen2.5-1.5B, published", "DVAO", "all"]
    selected = rows["Qwen2.5-1.5B, published", "DVAO", "selected"]
    assert everything["format"].value == pytest.approx(61.87, abs=0.005)
    assert everything["format_sd"].value == pytest.approx(43.45, abs=0.005)
    assert everything["accuracy"].value == pytest.approx(48.87, abs=0.005)
    assert (everything["format"].n, selected["format"].n) == (5, 3)
    assert selected["format"].value == pytest.approx(93.52, abs=0.005)
    assert all((section, label, "all") in rows for section, label, view in rows if view == "selected")


def test_learning_speed_shows_each_seed_and_the_printed_medians(tables):
    table = tables["table_learning_speed"]
    section = "Qwen2.5-1.5B, published"
    assert cell(table, section, "GDPO", "per_seed").value == "18, 19, 75, 16, 65"
    medians = [cell(table, section, label, "curve").value for label in ("GRPO", "GDPO", "DARA-Sym", "DARA-Asym")]
    assert medians == [34, 19, 15, 14]


def test_maths_tables(tables):
    assert cell(tables["table03_maths"], "DeepSeek-R1-7B", "DARA-Asym", "joint").published == pytest.approx(57.83)
    static = cell(tables["table04_maths_controls"], "DeepSeek-R1-1.5B", "Static-Asym", "exceed")
    assert static.published == pytest.approx(3.14)


def test_configuration_tables_show_the_papers_numbers(tables):
    rows = {row.label: row.cells for row in tables["table08_group_size"].rows}
    assert [rows["prompts a step"][f"c{number}"].value for number in range(4)] == ["512", "256", "128", "64"]
    rows = {row.label: row.cells for row in tables["table09_maths"].rows}
    assert rows["clip range"]["c0"].value == "0.2 / 0.28"


def test_table_10_shows_the_papers_protocol(tables):
    table = tables["table10_benchmarks"]
    rows = {(row.section, row.label): row.cells for row in table.rows}
    maths = [cells for (section, label), cells in rows.items() if section == "maths" and label != "all five"]
    assert [cells["questions"].value for cells in maths] == [500, 30, 83, 272, 674]
    assert [cells["source"].value.partition("@")[0] for cells in maths] == [
        "HuggingFaceH4/MATH-500",
        "HuggingFaceH4/aime_2024",
        "AI-MO/aimo-validation-amc",
        "math-ai/minervamath",
        "Hothan/OlympiadBench",
    ]
    assert "OE_TO_maths_en_COMP" in maths[-1]["part"].value
    total = rows["maths", "all five"]
    assert (total["questions"].value, total["samples"].value, total["outputs"].value) == (1559, 16, 24944)
    assert (total["decoding"].value, total["tokens"].value, total["seed"].value) == ("0.6 / 0.95", 32768, 0)
    bfcl = [rows["BFCL-v4", label] for label in ("Non-Live", "Live", "Multi-Turn", "all")]
    assert [cells["questions"].value for cells in bfcl] == [1150, 1351, 800, 3301]
    assert {cells["samples"].value for cells in bfcl} == {1}
    assert {(cells["decoding"].value, cells["tokens"].value, cells["context"].value) for cells in bfcl} == {
        ("0.6 / 0.95", 8192, 32768)
    }
    assert "simple_python 400, simple_java 100, simple_javascript 50" in " ".join(table.notes)


def test_table_10_follows_the_evaluation(monkeypatch):
    from harness.evaluation import maths

    monkeypatch.setattr(maths, "SAMPLING", dataclasses.replace(maths.SAMPLING, samples=3, temperature=0.25))
    row = cell(module("table10_benchmarks").build(), "maths", "all five", "outputs")
    assert row.value == 3 * 1559
    decoding = cell(module("table10_benchmarks").build(), "maths", "AIME 2024", "decoding")
    assert decoding.value == "0.25 / 0.95"


def test_tables_of_code_need_no_results(tmp_path, capsys):
    assert main(["table05_methods", "--results", str(tmp_path / "results")]) == 0
    assert (tmp_path / "results" / "tables" / "table05_methods.md").exists()
    assert main(["table01_bfcl", "--results", str(tmp_path / "results")]) == 2
    assert "collect" in capsys.readouterr().err


def test_every_table_has_four_renderings_that_do_not_depend_on_when(tables, tmp_path):
    for table in tables.values():
        first = {path.name: path.read_bytes() for path in render.write(table, tmp_path / "one")}
        again = {path.name: path.read_bytes() for path in render.write(table, tmp_path / "two")}
        assert first == again
        assert len(first) == 4
        assert json.loads(first[f"{table.name}.json"])["name"] == table.name


def test_empty_cells_say_why(tables):
    text = render.markdown(tables["table01_bfcl"])
    assert "not run: Qwen2.5-1.5B base" in text


def test_best_needs_an_interval_apart_from_all_others():
    def row(label: str, low: float, high: float) -> Row:
        return Row(label, {"x": Cell(value=(low + high) / 2, low=low, high=high)}, "s")

    apart = with_best([row("a", 5, 6), row("b", 1, 2), row("c", 2, 4)], "x")
    assert [item.cells["x"].best for item in apart] == [True, False, False]
    touching = with_best([row("a", 3.9, 6), row("b", 1, 2), row("c", 2, 4)], "x")
    assert not any(item.cells["x"].best for item in touching)
    lower = with_best([row("a", 5, 6), row("b", 0, 1), row("c", 2, 4)], "x", higher=False)
    assert [item.cells["x"].best for item in lower] == [False, True, False]
    assert not with_best([row("alone", 5, 6)], "x")[0].cells["x"].best


def sample_table() -> Table:
    return Table(
        name="sample",
        title="50 % & more_of #1",
        caption="A caption.",
        columns=(Column("x", "value", "%", 1), Column("y", "words")),
        rows=(
            Row("a|b", {"x": Cell(value=-0.001, low=-1.0, high=1.0, n=3, run_ids=("r1", "r2"), published=2.0)}, "s_1"),
            Row("c", {"x": Cell(why="not run"), "y": Cell(value="x^2 {y}")}, "s_1"),
        ),
    )


def test_markdown_escapes_and_shows_interval_runs_and_published():
    text = render.markdown(sample_table())
    assert "| a\\|b | 0.0 [-1.0, 1.0] (3) \\| 2.0 |" in text
    assert "not run: s_1 c" in text


def test_published_numbers_alone_stand_alone(tables):
    text = render.markdown(tables["table03_maths"])
    assert "| GRPO | 45.52 | 11.03 | 44.69 |" in text
    assert "Published numbers; no run of ours is here yet." in text
    assert "GRPO & 45.52 & 11.03 & 44.69" in render.latex(tables["table03_maths"])


def test_long_texts_are_broken_into_lines(tables):
    assert "\\begin{tabular}{lp{7.0cm}" in render.latex(tables["table05_methods"])
    assert "\\begin{tabular}{lrrr}" in render.latex(tables["table03_maths"])


def test_csv_keeps_full_precision_and_runs():
    rows = list(csv.DictReader(io.StringIO(render.comma_separated(sample_table()))))
    assert rows[0]["value"] == "-0.001"
    assert rows[0]["run_ids"] == "r1 r2"
    assert float(rows[0]["difference"]) == pytest.approx(-2.001)


def test_cells_must_have_a_column():
    with pytest.raises(ValueError, match="nowhere"):
        Table("t", "t", "", (Column("x", "x"),), (Row("a", {"nowhere": Cell()}),))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX")
def test_latex_compiles(tables, tmp_path: Path):
    body = "\n".join(render.latex(table) for table in [*tables.values(), sample_table()])
    source = (
        "\\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\\usepackage[T1]{fontenc}\n"
        "\\usepackage{booktabs,graphicx}\n\\begin{document}\n" + body.replace("[t]", "[p]") + "\n\\end{document}\n"
    )
    (tmp_path / "all.tex").write_text(source, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]

"""README.md: its numbers are build outputs, its table of paper items names every module."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from figures.__main__ import names as figure_names
from harness.cli import main
from harness.errors import UserError
from harness.report.readme_command import block, with_block
from paper_tables.__main__ import names as table_names

ROOT = Path(__file__).resolve().parents[2]


def test_readme_is_what_the_shown_results_make_it(capsys):
    assert main(["readme", "--check", "--root", str(ROOT)]) == 0
    assert "up to date" in capsys.readouterr().out


def test_a_number_changed_by_hand_is_found(tmp_path):
    shutil.copytree(ROOT / "docs" / "shown", tmp_path / "docs" / "shown")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("| DARA-Asym |"))
    (tmp_path / "README.md").write_text(text.replace(line, line.replace("14", "13")), encoding="utf-8")
    assert main(["readme", "--check", "--root", str(tmp_path)]) == 1


def test_paper_and_pocket_numbers_have_columns_of_their_own():
    rows = [line for line in block(ROOT / "docs" / "shown").splitlines() if line.startswith("|")]
    headings = [cell.strip() for cell in rows[0].strip("|").split("|")]
    assert [("paper" in name, "pocket" in name) for name in headings[1::2]] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    asym = next(row for row in rows if row.startswith("| DARA-Asym"))
    assert "15, 14, 13, 13, 16 | 14 |" in asym


def test_what_holds_grpo_back_is_said_beside_its_numbers():
    text = block(ROOT / "docs" / "shown")
    assert "training.reward_kl_methods=none" in text
    assert "docs/pocket.md" in text


def test_marks_that_are_gone_are_one_line():
    with pytest.raises(UserError, match="marks"):
        with_block("# A readme\n", "numbers")


def test_results_that_are_not_there_are_one_line(tmp_path, capsys):
    shutil.copy(ROOT / "README.md", tmp_path)
    assert main(["readme", "--root", str(tmp_path), "--results", str(tmp_path / "results")]) == 2
    assert "dvc repro" in capsys.readouterr().err


def test_every_table_and_figure_is_in_the_list_of_paper_items():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|") and "python -m" in line]
    listed = " ".join(rows).replace("`", " ").replace(".", " ").replace("/", " ").split()
    assert [name for name in (*table_names(), *figure_names()) if name not in listed] == []

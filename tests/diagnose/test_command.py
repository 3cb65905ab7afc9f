"""The command as a user runs it."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from diagnose_logs import jsonl, rows

HOSTILE = "<script>alert(1)</script>$x^{$\x1b[31m"


def test_prints_what_it_took_and_found(tmp_path: Path, harness: Any) -> None:
    jsonl(tmp_path / "1.jsonl", rows(1))
    jsonl(tmp_path / "2.jsonl", rows(2))
    result = harness("diagnose", "1.jsonl", "2.jsonl", "--bounds", "correctness=0,1", "--bounds", "format=0,1")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert "16 responses in 6 groups, 2 steps, from 2 files (read as verl)" in result.stdout
    assert "channels  correctness, format" in result.stdout
    assert "not a channel: score (taken for the sum of the others)" in result.stdout
    assert "needs --bounds" not in result.stdout
    assert re.search(r"^sa_mrpo +[\d.]+", result.stdout, re.MULTILINE)
    assert (
        "  * a filter on the sum of the rewards would drop 2 groups (33 %) in which a channel varies" in result.stdout
    )


def test_page_and_numbers(tmp_path: Path, harness: Any) -> None:
    records = [row | {HOSTILE: row["format"], "_hidden": row["format"]} for row in rows()]
    jsonl(tmp_path / "1.jsonl", records)
    result = harness("diagnose", "1.jsonl", "--html", "out.html", "--csv", "out.csv")
    assert result.returncode == 0, result.stderr
    assert "\x1b" not in result.stdout
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page
    assert page.count("<svg") == 1
    svg = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    ElementTree.fromstring(svg)
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert all(link.startswith("#") for link in loaded), loaded
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    (form,) = (row for row in table if row["channel"] == "format")
    assert float(form["density"]) == pytest.approx(1 / 3)


def test_many_steps_are_thinned_and_said(tmp_path: Path, harness: Any) -> None:
    jsonl(tmp_path / "log.jsonl", [row for step in range(40) for row in rows(step)])
    short, full = harness("diagnose", "log.jsonl"), harness("diagnose", "log.jsonl", "--all-steps")
    assert "12 of 40 steps are shown" in short.stdout
    assert "steps are shown" not in full.stdout
    assert len(full.stdout.splitlines()) > len(short.stdout.splitlines()) + 80


def test_own_method_in_the_replay(tmp_path: Path, harness: Any) -> None:
    (tmp_path / "mine.py").write_text("def mine(batch, *, floor=-1.0):\n    return batch.advantages().sum(axis=1)\n")
    jsonl(tmp_path / "1.jsonl", rows())
    result = harness("diagnose", "1.jsonl", "--methods", "gdpo,mine.py")
    assert re.search(r"^mine +1\.0000", result.stdout, re.MULTILINE), result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl"], "there is no file none.jsonl"),
        (["1.jsonl", "--bounds", "format=1"], "write two numbers"),
        (["1.jsonl", "--bounds", "format=1,0"], "must be below"),
        (["1.jsonl", "--bounds", "format"], "write CHANNEL=VALUE"),
        (["1.jsonl", "--bounds", "x=0,1"], "not a channel of the log"),
        (["1.jsonl", "--weights", "format=-1"], "at least 0"),
        (["1.jsonl", "--weights", "x=1"], "not a channel of the log"),
        (["1.jsonl", "--methods", "dara_asim"], "did you mean 'dara_asym'"),
        (["1.jsonl", "--group", "uud"], "did you mean 'uid'"),
        (["1.jsonl", "--html", "absent/out.html"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, harness: Any, arguments: list[str], message: str) -> None:
    jsonl(tmp_path / "1.jsonl", rows())
    result = harness("diagnose", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1

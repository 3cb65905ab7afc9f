"""Nothing that is odd in a file becomes a wrong number."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from diagnose_logs import as_csv, assert_the_batch, jsonl, read, rows, warned

from harness.diagnose.report import diagnose
from harness.errors import UserError


def test_labels_stay_exact(tmp_path: Path) -> None:
    """Text "01", text "1" and number 1 are three groups, also in CSV two."""
    records = [{"uid": uid, "x": value} for uid in ("01", "1", 1, "1.0") for value in (0.0, 1.0)]
    assert diagnose(read(jsonl(tmp_path / "a.jsonl", records))).steps[0].groups == 4
    assert diagnose(read(as_csv(tmp_path / "b.csv", records))).steps[0].groups == 3
    table = pd.DataFrame([record | {"uid": str(record["uid"])} for record in records])
    table.to_parquet(tmp_path / "c.parquet")
    assert diagnose(read(tmp_path / "c.parquet")).steps[0].groups == 3


def test_long_numbers_are_different_labels(tmp_path: Path) -> None:
    text = "".join(f'{{"uid": {10**25 + place // 2}, "x": {place % 2}}}\n' for place in range(4))
    (tmp_path / "a.jsonl").write_text(text)
    assert diagnose(read(tmp_path / "a.jsonl")).steps[0].groups == 2


def test_groups_split_across_files(tmp_path: Path) -> None:
    jsonl(tmp_path / "part-0.jsonl", rows()[::2])
    jsonl(tmp_path / "part-1.jsonl", rows()[1::2])
    log = read(tmp_path)
    assert_the_batch(log)
    assert warned(log, "step 1 comes from more than one file: read as one batch")


def test_uneven_groups_are_said(tmp_path: Path) -> None:
    found = diagnose(
        read(jsonl(tmp_path / "a.jsonl", [*rows(), {"step": 1, "uid": "z", "correctness": 1, "format": 1}]))
    )
    assert any("groups are uneven: 1 to 4 responses" in line for line in found.warnings)
    assert found.steps[0].channels["format"].too_few == 1 / 4


def test_missing_and_non_numeric_cells(tmp_path: Path) -> None:
    records = rows()
    records[4]["format"] = None
    records[5]["format"] = "broken"
    del records[6]["format"]
    log = read(jsonl(tmp_path / "a.jsonl", records))
    assert warned(log, "1 response whose format is not a number: missing there (first: ")
    assert warned(log, "a.jsonl line 6)")
    assert warned(log, "channel format: 3 of 8 rewards are missing")
    form = diagnose(log).steps[0].channels["format"]
    # Left of c: one reward, so it can't vary there; the mean is that of the five present ones.
    assert form.mean == 1.0
    assert form.density == 0
    assert form.too_few == pytest.approx(1 / 3)


def test_cells_of_csv(tmp_path: Path) -> None:
    records = [
        row | {"format": cell}
        for row, cell in zip(rows(), ["1", "1.0", " true ", "1e0", "", "NA", "?", "1_0"], strict=True)
    ]
    log = read(as_csv(tmp_path / "a.csv", records))
    assert warned(log, "2 responses whose format is not a number")
    assert log.rows.rewards[:, 1][:4].tolist() == [1, 1, 1, 1]
    assert np.isnan(log.rows.rewards[:, 1][4:]).all()


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_cut_last_line(tmp_path: Path, cut: int) -> None:
    path = jsonl(tmp_path / "a.jsonl", [*rows(), {"step": 1, "uid": "zzzzzzzzzz", "correctness": 1.0, "format": 1.0}])
    path.write_bytes(path.read_bytes()[: -1 - cut])
    log = read(path)
    assert warned(log, "the last line is cut (still being written?): left out (first: ")
    assert_the_batch(log)


def test_missing_line_end_is_no_cut(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "a.jsonl", rows())
    path.write_bytes(path.read_bytes()[:-1])
    log = read(path)
    assert not log.warnings
    assert_the_batch(log)


def test_cut_csv(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "a.csv", rows())
    whole = path.read_bytes()
    path.write_bytes(whole + b"1,d,prom")
    log = read(path)
    assert warned(log, "the last line is cut")
    assert_the_batch(log)
    path.write_bytes(whole.rstrip())
    assert warned(read(path), "the last line has no line end")


def test_cut_packed_file(tmp_path: Path) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows() * 500).encode()
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(data)[:-300])
    log = read(path)
    assert warned(log, "the packed file stops in the middle")
    assert 0 < len(log.rows) < 4000


def test_damaged_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row) for row in rows()]
    path.write_text(
        "\n".join(["not json", *lines[:4], "[1, 2]", "", *lines[4:], '{"step": 1, "correctness": 1}']) + "\n"
    )
    log = read(path)
    assert warned(log, "2 responses that cannot be read: left out (first: ")
    assert warned(log, "a.jsonl line 1)")
    assert warned(log, "1 response without a group in column uid: left out")
    assert_the_batch(log)


def test_step_that_is_no_number(tmp_path: Path) -> None:
    log = read(jsonl(tmp_path / "a.jsonl", [*rows(), {"step": "last", "uid": "q", "correctness": 1, "format": 0}]))
    assert warned(log, "1 response with no step in column step: left out")
    assert_the_batch(log)


def test_attempts_the_last_one_counts(tmp_path: Path) -> None:
    wrong = [row | {"correctness": 0.0, "attempt": 1} for row in rows()]
    right = [row | {"attempt": 2} for row in rows()]
    for order in (wrong + right, right + wrong):
        log = read(jsonl(tmp_path / "a.jsonl", order))
        assert warned(log, "step 1 has more than one attempt: the last one counts, 8 earlier responses are left out")
        assert_the_batch(log)


def test_a_resumed_log_without_attempts(tmp_path: Path) -> None:
    """Steps 1, 2, 3, then again 2, 3, 4: the second 2 and 3 count."""
    wrong = [row | {"format": 1.0} for step in (2, 3) for row in rows(step)]
    records = rows(1) + wrong + rows(2) + rows(3) + rows(4)
    log = read(jsonl(tmp_path / "a.jsonl", records))
    assert warned(log, "steps 2, 3 have a second block after later steps")
    assert [step.responses for step in diagnose(log).steps] == [8] * 4
    assert all(step.channels["format"].density == pytest.approx(1 / 3) for step in diagnose(log).steps)
    assert len(read(tmp_path / "a.jsonl", duplicates="merge").rows) == 48


def test_a_table_sorted_by_prompt_is_no_resume(tmp_path: Path) -> None:
    records = sorted(rows(1) + rows(2), key=lambda row: (row["uid"], row["step"]))
    log = read(jsonl(tmp_path / "a.jsonl", records))
    assert warned(log, "back and forth")
    assert [step.responses for step in diagnose(log).steps] == [8, 8]


def test_last_file_on_request(tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", [row | {"correctness": 0.0} for row in rows()])
    jsonl(tmp_path / "b.jsonl", rows())
    assert_the_batch(read(tmp_path, duplicates="last"))


def test_no_rewards(tmp_path: Path) -> None:
    records = [{"step": 1, "uid": "a", "input": "x", "output": "y", "response_tokens": 4}] * 3
    with pytest.raises(UserError, match="the files hold no rewards"):
        read(jsonl(tmp_path / "a.jsonl", records))


def test_no_group(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no column says which group.*--group"):
        read(jsonl(tmp_path / "a.jsonl", [{"step": 1, "x": 1.0}]))


def test_every_group_of_one(tmp_path: Path) -> None:
    records = [row | {"uid": f"{place}"} for place, row in enumerate(rows())]
    with pytest.raises(UserError, match=r"every group of column uid has one response.*--group"):
        diagnose(read(jsonl(tmp_path / "a.jsonl", records)))


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello\nworld\n"])
def test_nothing_to_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(UserError, match="no row could be read"):
        read(tmp_path / "a.jsonl")


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(rows()))
    with pytest.raises(UserError, match="one JSON array"):
        read(tmp_path / "a.json")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 cut")
    with pytest.raises(UserError, match="no whole parquet file"):
        read(tmp_path / "a.parquet")
    (tmp_path / "a.jsonl.zst").write_bytes(b"no zstd")
    with pytest.raises(UserError):
        read(tmp_path / "a.jsonl.zst")
    (tmp_path / "a.pt").write_bytes(b"")
    with pytest.raises(UserError, match="rename or convert"):
        read(tmp_path / "a.pt")
    with pytest.raises(UserError, match="there is no file"):
        read(tmp_path / "absent.jsonl")
    path = jsonl(tmp_path / "b.jsonl", rows())
    with pytest.raises(UserError, match="given twice"):
        read(path, path)


def test_lengths_that_are_no_counts(tmp_path: Path) -> None:
    records = [row | {"response_tokens": 5} for row in rows()]
    records[3]["response_tokens"] = None
    log = read(jsonl(tmp_path / "a.jsonl", records))
    assert log.rows.lengths is None
    assert warned(log, "holds no token count in 1 places")
    assert_the_batch(log)

"""The metrics log: what is written is read back, to the bit, whatever a crash leaves at its end."""

from __future__ import annotations

import errno
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UserError
from harness.store.metrics import Metrics


class Attempt:
    """A metrics log whose attempt number the test chooses, and what it reported."""

    def __init__(self, path: Path) -> None:
        self.number = 1
        self.reports: list[str] = []
        self.log = Metrics(path, attempt=lambda: self.number, report=self.reports.append)

    def restart(self) -> None:
        """As a new process would begin the next attempt."""
        self.log.close()
        self.number += 1
        number = self.number
        self.log = Metrics(self.log.path, attempt=lambda: number, report=self.reports.append)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    return Attempt(tmp_path / "metrics.jsonl")


def test_a_line_is_flat_json_with_schema_attempt_and_step(attempt: Attempt) -> None:
    attempt.log.append(3, {"reward/format": 0.1, "cap_hit/format": True, "kl": None})
    line = attempt.log.path.read_text()
    assert line.endswith("}\n")
    assert json.loads(line) == {
        "schema": 1,
        "attempt": 1,
        "step": 3,
        "reward/format": 0.1,
        "cap_hit/format": True,
        "kl": None,
    }


@settings(max_examples=40)
@given(values=st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_floats_come_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    log = Attempt(tmp_path_factory.mktemp("log") / "metrics.jsonl").log
    for step, value in enumerate(values, start=1):
        log.append(step, {"x": value, "numpy": np.float64(value)})
    log.close()
    for line in log.path.read_text().splitlines():
        json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    for row, value in zip(log.rows(), values, strict=True):
        for key in ("x", "numpy"):
            assert row[key] == value or (math.isnan(row[key]) and math.isnan(value))
            assert math.copysign(1.0, row[key]) == math.copysign(1.0, value) or math.isnan(value)


@settings(max_examples=60)
@given(steps=st.integers(1, 6), data=st.data())
def test_any_truncation_of_the_file_yields_a_prefix_of_the_rows(
    tmp_path_factory: pytest.TempPathFactory, steps: int, data: st.DataObject
) -> None:
    attempt = Attempt(tmp_path_factory.mktemp("log") / "metrics.jsonl")
    for step in range(1, steps + 1):
        attempt.log.append(step, {"reward/format": step / 7, "ü": None})
    attempt.log.close()
    rows = attempt.log.rows()
    content = attempt.log.path.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    attempt.log.path.write_bytes(content[:cut])

    whole_lines = content[:cut].count(b"\n")
    log = attempt.log.read()
    assert log.rows == rows[: len(log.rows)]
    assert len(log.rows) in (whole_lines, whole_lines + 1)  # a line may lack nothing but its newline
    assert attempt.log.last_step() == len(log.rows)
    assert log.findings == []
    complete = cut == 0 or content[:cut].endswith((b"\n", b"}"))
    assert (log.unfinished is None) == complete

    attempt.restart()
    attempt.log.append(len(log.rows) + 1, {"reward/format": 0.5})
    assert [row["step"] for row in attempt.log.rows()] == list(range(1, len(log.rows) + 2))
    assert bool(attempt.reports) == (not complete)


def test_the_last_attempt_wins_from_the_step_at_which_it_starts_over(attempt: Attempt) -> None:
    for step in range(1, 8):
        attempt.log.append(step, {"x": 1.0})
    attempt.restart()
    for step in range(5, 7):
        attempt.log.append(step, {"x": 2.0})
    assert [(row["step"], row["attempt"]) for row in attempt.log.rows()] == [
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
        (5, 2),
        (6, 2),
    ]
    assert attempt.log.last_step() == 6
    assert len(attempt.log.read().lines) == 9


def test_a_cut_last_line_is_reported_with_file_and_line_and_set_aside_on_resume(attempt: Attempt) -> None:
    attempt.log.append(1, {"x": 1.0})
    with open(attempt.log.path, "ab") as file:
        file.write(b'{"schema":1,"attempt":1,"st')
    log = attempt.log.read()
    assert [row["step"] for row in log.rows] == [1]
    assert log.unfinished is not None
    assert str(log.unfinished).startswith(f"{attempt.log.path}, line 2: ")
    attempt.restart()
    attempt.log.append(2, {"x": 2.0})
    assert attempt.log.path.read_bytes().count(b"\n") == 2
    assert "line 2" in attempt.reports[0]
    assert '{"schema":1,"attempt":1,"st' in attempt.reports[0]


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00" * 40,
        b"[1, 2]",
        b'{"schema":1}',
        b'{"schema":2,"attempt":1,"step":2}',
        b"[" * 100_000,
        b"\xff\xfe",
        b"NaN",
    ],
)
def test_a_garbled_line_in_the_middle_is_an_error_that_names_it(attempt: Attempt, garbage: bytes) -> None:
    attempt.log.append(1, {"x": 1.0})
    attempt.log.append(2, {"x": 2.0})
    attempt.log.append(3, {"x": 3.0})
    lines = attempt.log.path.read_bytes().splitlines()
    attempt.log.path.write_bytes(b"\n".join([lines[0], garbage, lines[2], b""]))
    with pytest.raises(UserError, match=r"metrics\.jsonl, line 2: .*delete that line"):
        attempt.log.rows()
    assert [row["step"] for row in attempt.log.read().rows] == [1, 3]


def test_steps_of_an_attempt_increase(attempt: Attempt) -> None:
    attempt.log.append(2, {})
    with pytest.raises(ValueError, match="step 2 follows step 2 in attempt 1"):
        attempt.log.append(2, {})


@pytest.mark.parametrize("key", ["schema", "attempt", "step"])
def test_reserved_keys_are_refused(attempt: Attempt, key: str) -> None:
    with pytest.raises(ValueError, match=key):
        attempt.log.append(1, {key: 1})
    assert not attempt.log.path.exists()


def test_the_tail_is_found_in_a_long_file_and_behind_long_lines(attempt: Attempt) -> None:
    for step in range(1, 301):
        attempt.log.append(step, {f"key{number}": 0.123456789 for number in range(60)})
    attempt.log.append(301, {f"key{number}": 0.1 for number in range(5000)})
    assert attempt.log.last_step() == 301
    assert [row["step"] for row in attempt.log.tail(10)] == list(range(292, 302))
    assert len(attempt.log.tail(1000)) == 301


def test_an_empty_or_missing_log_has_no_steps(attempt: Attempt) -> None:
    assert attempt.log.rows() == []
    assert attempt.log.last_step() == 0
    attempt.log.path.write_bytes(b"")
    assert attempt.log.rows() == []
    assert attempt.log.last_row() is None


def test_a_disk_that_fills_within_a_line_leaves_whole_lines(attempt: Attempt, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt.log.append(1, {"x": 1.0})
    before = attempt.log.path.read_bytes()
    write = os.write

    calls = iter([10])

    def one_piece_then_full(file: int, content: bytes) -> int:
        size = next(calls, None)
        if size is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, content[:size])

    monkeypatch.setattr(os, "write", one_piece_then_full)
    with pytest.raises(UserError, match=r"no space left to write .*metrics\.jsonl.*output\.runs=FOLDER"):
        attempt.log.append(2, {"x": 2.0})
    assert attempt.log.path.read_bytes() == before
    monkeypatch.undo()
    attempt.log.append(2, {"x": 2.0})
    assert [row["x"] for row in attempt.log.rows()] == [1.0, 2.0]


def test_listeners_get_each_stored_row(attempt: Attempt) -> None:
    seen: list[dict[str, object]] = []
    attempt.log.subscribe(seen.append)
    attempt.log.append(1, {"x": 1.0})
    assert seen == [{"schema": 1, "attempt": 1, "step": 1, "x": 1.0}]

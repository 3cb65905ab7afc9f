"""Which column is what, by name and by what it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from diagnose_logs import jsonl, read, rows

from harness.diagnose.report import diagnose
from harness.errors import UserError


def test_flags_override(tmp_path: Path) -> None:
    records = [row | {"when": row["step"] + 5, "my_reward_id": row["format"], "size": 3} for row in rows()]
    path = jsonl(tmp_path / "log.jsonl", records)
    log = read(path, group="input", step="when", channels=("my_reward_id", "score"), length="size")
    assert log.columns.channels == ("my_reward_id", "score")
    assert (log.columns.group, log.columns.length) == ("input", "size")
    assert diagnose(log).steps[0].step == 6
    with pytest.raises(UserError, match=r"--channels corectness.*did you mean 'correctness'"):
        read(path, channels=("corectness",))
    with pytest.raises(UserError, match=r"--group uuid.*did you mean 'uid'"):
        read(path, group="uuid")


def test_length_of_zeros_and_ones_is_a_channel(tmp_path: Path) -> None:
    rewards = read(jsonl(tmp_path / "a.jsonl", [row | {"length": row["format"]} for row in rows()]))
    assert rewards.columns.channels == ("correctness", "format", "length")
    tokens = read(jsonl(tmp_path / "b.jsonl", [row | {"length": 200} for row in rows()]))
    assert tokens.columns.channels == ("correctness", "format")
    assert tokens.columns.length == "length"


def test_only_a_sum(tmp_path: Path) -> None:
    records = [{"step": 1, "uid": row["uid"], "score": row["score"]} for row in rows()]
    assert read(jsonl(tmp_path / "log.jsonl", records)).columns.channels == ("score",)


def test_a_channel_that_starts_late_is_found(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    early = [
        {key: value for key, value in row.items() if key != "format"} | {"pad": "x" * 4000} for row in rows()
    ] * 100
    late = [row | {"step": 2} for row in rows()]
    log = read(jsonl(path, early * 2 + late))
    assert log.columns.channels == ("correctness", "format")

"""Every format gives the same batch, and nothing that is odd in a file becomes a wrong number."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from diagnose_logs import jsonl, rows

from harness.diagnose import jsonlines, reading
from harness.diagnose.columns import Choice
from harness.diagnose.reading import Log, read_log
from harness.diagnose.report import diagnose
from harness.errors import UserError

EXPECTED = {"correctness": (5 / 8, 2 / 3), "format": (6 / 8, 1 / 3)}


def read(*paths: Path, duplicates: str = "auto", **choice: Any) -> Log:
    return read_log(paths, Choice(**choice), duplicates)


def assert_the_batch(log: Log) -> None:
    assert log.columns.channels == ("correctness", "format")
    (step,) = diagnose(log).steps
    assert (step.responses, step.groups) == (8, 3)
    for name, (mean, density) in EXPECTED.items():
        assert step.channels[name].mean == pytest.approx(mean)
        assert step.channels[name].density == pytest.approx(density)


def warned(log: Log, text: str) -> bool:
    return any(text in line for line in log.warnings)


def as_csv(path: Path, records: list[dict[str, Any]], **options: Any) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]), **options)
        writer.writeheader()
        writer.writerows(records)
    return path


# Formats


def test_own_dump(tmp_path: Path) -> None:
    records = [row | {"gts": "1", "attempt": 1, "response_tokens": 7} for row in rows()]
    log = read(jsonl(tmp_path / "1.jsonl", records))
    assert (log.columns.group, log.columns.step, log.columns.length) == ("uid", "step", "response_tokens")
    assert log.columns.format == "verl"
    assert log.columns.not_taken == {"score": "taken for the sum of the others"}
    assert_the_batch(log)


def test_verl_dump_groups_by_prompt(tmp_path: Path) -> None:
    """verl writes no uid; acc is a bool, pred a text, gts may be a number."""
    records = []
    for number, row in enumerate(rows()):
        del row["uid"]
        records.append(
            row | {"gts": 42, "pred": "41", "request_id": f"r{number}", "correctness": bool(row["correctness"])}
        )
    log = read(jsonl(tmp_path / "1.jsonl", records))
    assert log.columns.group == "input"
    assert warned(log, "told apart by the prompt")
    assert_the_batch(log)


def test_numbers_written_as_text_are_named(tmp_path: Path) -> None:
    """verl's dump writes what JSON does not know, such as a float32 of NumPy, as text."""
    path = jsonl(tmp_path / "1.jsonl", [row | {"format": str(row["format"])} for row in rows()])
    log = read(path)
    assert log.columns.channels == ("correctness",)
    assert log.columns.not_taken["format"] == "numbers written as text; if it is a reward, give --channels format,..."
    assert_the_batch(read(path, channels=("correctness", "format")))


@pytest.mark.verl
def test_a_file_that_verl_writes(tmp_path: Path) -> None:
    trainer = pytest.importorskip("verl.trainer.ppo.ray_trainer").RayPPOTrainer
    batch = rows()
    parts = {name: [row[name] for row in batch] for name in ("correctness", "format")}
    texts = [[row[name] for row in batch] for name in ("input", "output")]
    trainer._write_generations(*texts, ["42"] * 8, [row["score"] for row in batch], parts, str(tmp_path), 1)
    log = read(tmp_path / "1.jsonl")
    assert (log.columns.format, log.columns.group, log.columns.step) == ("verl", "input", "step")
    assert_the_batch(log)


def test_verl_nan_and_infinity(tmp_path: Path) -> None:
    """Python's json writes NaN and Infinity as bare words."""
    records = rows() + [{"step": 1, "uid": "d", "correctness": float("nan"), "format": float("inf")}] * 2
    log = read(jsonl(tmp_path / "1.jsonl", records))
    assert warned(log, "2 responses whose format is infinite: missing there")
    step = diagnose(log).steps[0]
    assert (step.left_out, step.groups) == (2, 3)
    assert step.channels["format"].missing == 2


def test_trl_completions(tmp_path: Path) -> None:
    """completions_00001.parquet: step, conversations, a column per reward function (NaN for None), advantage."""
    table = pd.DataFrame(
        {
            "step": [1] * 8,
            "prompt": [[{"role": "user", "content": row["input"]}] for row in rows()],
            "completion": [[{"role": "assistant", "content": "text"}]] * 8,
            "correctness": [row["correctness"] for row in rows()],
            "format": [row["format"] for row in rows()],
            "advantage": [0.0] * 8,
        }
    )
    path = tmp_path / "completions_00001.parquet"
    table.to_parquet(path)
    log = read(path)
    assert (log.columns.format, log.columns.group, log.columns.advantage) == ("trl", "prompt", "advantage")
    assert_the_batch(log)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv(tmp_path: Path, delimiter: str) -> None:
    records = [row | {"output": 'two\nlines, and "quotes"'} for row in rows()]
    assert_the_batch(read(as_csv(tmp_path / "log.csv", records, delimiter=delimiter)))


def test_csv_of_a_spreadsheet(tmp_path: Path) -> None:
    path = as_csv(tmp_path / "log.csv", rows())
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert_the_batch(read(path))


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pd.DataFrame(rows()).astype({"correctness": "float32", "format": "int64"}).to_parquet(path)
    assert_the_batch(read(path))


@pytest.mark.parametrize(("suffix", "codec"), [(".gz", "gzip"), (".zst", "zstd")])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_packed(tmp_path: Path, kind: str, suffix: str, codec: str) -> None:
    plain = jsonl(tmp_path / "log.jsonl", rows()) if kind == "jsonl" else as_csv(tmp_path / "log.csv", rows())
    packed = tmp_path / f"log.{kind}{suffix}"
    with pa.output_stream(str(packed), compression=codec) as stream:
        stream.write(plain.read_bytes())
    assert_the_batch(read(packed))


def test_packed_in_two_members(tmp_path: Path) -> None:
    lines = jsonl(tmp_path / "log.jsonl", rows()).read_bytes().splitlines(keepends=True)
    packed = tmp_path / "log.jsonl.gz"
    packed.write_bytes(gzip.compress(b"".join(lines[:3])) + gzip.compress(b"".join(lines[3:])))
    assert_the_batch(read(packed))


def test_folder_in_natural_order(tmp_path: Path) -> None:
    for step in (10, 9, 1):
        jsonl(tmp_path / f"{step}.jsonl", rows(step))
    (tmp_path / "notes.txt").write_text("no log")
    log = read(tmp_path)
    assert [source.path.name for source in log.sources] == ["1.jsonl", "9.jsonl", "10.jsonl"]
    assert [step.step for step in diagnose(log).steps] == [1, 9, 10]


def test_step_from_the_name(tmp_path: Path) -> None:
    for step in (3, 4):
        records = [{key: value for key, value in row.items() if key != "step"} for row in rows()]
        jsonl(tmp_path / f"{step}.jsonl", records)
    assert [step.step for step in diagnose(read(tmp_path)).steps] == [3, 4]


def test_no_step_is_one_batch_and_said(tmp_path: Path) -> None:
    records = [{key: value for key, value in row.items() if key != "step"} for row in rows()]
    log = read(jsonl(tmp_path / "log.jsonl", records))
    assert warned(log, "no column holds the step")
    assert_the_batch(log)


# Which column is what


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


# Bad input


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


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("piece", [1, 37, 150, 1000])
def test_any_cut_into_pieces_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int, parallel: bool
) -> None:
    if parallel and piece < 150:
        pytest.skip("as many tasks as bytes")
    monkeypatch.setattr(jsonlines, "PIECE", piece)
    if parallel:
        monkeypatch.setattr(reading, "_PARALLEL_FROM", 0)
    records = [row | {"output": "ä" * place} for place, row in enumerate(rows())]
    jsonl(tmp_path / "1.jsonl", records)
    jsonl(tmp_path / "2.jsonl", rows(2))
    log = read(tmp_path)
    assert log.rows.lines.tolist() == [*range(1, 9), *range(1, 9)]
    assert log.rows.rewards[:, 0].tolist() == [row["correctness"] for row in rows()] * 2
    assert [step.groups for step in diagnose(log).steps] == [3, 3]
    assert not log.warnings

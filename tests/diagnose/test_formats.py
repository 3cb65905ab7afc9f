"""Every format gives the same batch, packed or not, in any number of pieces."""

from __future__ import annotations

import gzip
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from diagnose_logs import as_csv, assert_the_batch, jsonl, read, rows, warned

from harness.diagnose import jsonlines, reading
from harness.diagnose.report import diagnose


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


def test_uids_of_responses_are_no_groups(tmp_path: Path) -> None:
    """verl's default trainer calls the key of a row its uid: prompt_session_output."""
    records = [row | {"uid": f"{row['uid']}_{number}_0"} for number, row in enumerate(rows())]
    log = read(jsonl(tmp_path / "1.jsonl", records))
    assert log.columns.group == "input"
    assert_the_batch(log)
    log = read(jsonl(tmp_path / "2.jsonl", [row | {"group_uid": row["uid"][0]} for row in records]))
    assert log.columns.group == "group_uid"
    assert_the_batch(log)


def test_uids_that_only_look_like_keys_of_responses_stay_groups(tmp_path: Path) -> None:
    log = read(jsonl(tmp_path / "1.jsonl", [row | {"uid": f"task_{ord(row['uid'])}_0"} for row in rows()]))
    assert log.columns.group == "uid"
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

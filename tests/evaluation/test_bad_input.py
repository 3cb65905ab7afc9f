"""What goes wrong around an evaluation: nothing is lost, everything is counted and told in one line."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evaluation_data import make_data
from evaluation_server import server

from harness.cli import main
from harness.errors import UserError
from harness.evaluation.bfcl import environment
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.driver import Case, Conversation
from harness.evaluation.bfcl.stages import replay
from harness.evaluation.outputs import Content, Stored
from harness.evaluation.sampling import Generation
from harness.evaluation.sandbox import Sandbox
from harness.tasks import schema
from harness.tasks.prompts import Example, maths_messages


def right(_: int, body: dict[str, Any]) -> str:
    number = re.search(r"is (\d+)\?", body["messages"][0]["content"])
    assert number
    return f"so \\boxed{{{number[1]}}}"


def words(url: str, folder: Path, *more: str) -> list[str]:
    given = ["benchmark=math500", f"endpoint={url}", f"data.root={folder}/data", f"out={folder}/o", "samples=1"]
    return ["evaluate", *given, *more]


def stored(folder: Path) -> Path:
    return folder / "o/evals/math500/0/generations.jsonl"


def result(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "o/evals/math500/0.json").read_bytes()))


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def test_a_slow_server_is_given_up_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "data", 2)

    def slow(number: int, body: dict[str, Any]) -> str:
        time.sleep(1.0 if number == 0 else 0.0)
        return right(number, body)

    with server(slow) as (url, bodies):
        assert main(words(url, tmp_path, "concurrency=1", "timeout=0.3", "tries=1")) == 2
        assert f"endpoint={url}: 1 requests failed after 1 tries each, the last with: TimeoutError: timed out" in (
            last_line(capsys.readouterr().err)
        )
        assert main(words(url, tmp_path, "concurrency=1", "timeout=5")) == 0
        assert len(bodies) == 3
    assert result(tmp_path)["complete"]


def test_questions_that_went_came_or_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Version 2 of a data set lacks question 0, has a new one, and words question 1 anew."""
    make_data(tmp_path / "data", 4)
    with server(right) as (url, bodies):
        assert main(words(url, tmp_path)) == 0
        assert "outputs:" not in capsys.readouterr().out
        texts = {1: "say, what is 1?", 2: "math500: what is 2?", 3: "math500: what is 3?", 9: "math500: what is 9?"}
        examples = [Example(maths_messages(text), str(index), index) for index, text in texts.items()]
        schema.write(tmp_path / "data/math500/test.parquet", "math500", "maths", "test", examples)
        before = stored(tmp_path).read_bytes()
        assert main(words(url, tmp_path, "stage=score")) == 1
        line = capsys.readouterr().out.splitlines()[0]
        assert line.endswith("0.json: n 4; outputs: 2 missing, 2 stale (their question is gone or changed)")
        assert main(words(url, tmp_path)) == 0
        assert len(bodies) == 6
    line = capsys.readouterr().out.splitlines()[0]
    assert line.endswith(
        "n 4; outputs: 1 stale (their question is gone or changed), 1 asked again (their question had changed)"
    )
    assert stored(tmp_path).read_bytes().startswith(before)
    content = result(tmp_path)
    assert (content["missing"], content["stale"], content["metrics"]["accuracy"]) == (0, 1, 1.0)


def test_half_written_files_are_written_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "data", 3)
    with server(right) as (url, bodies):
        assert main(words(url, tmp_path)) == 0
        whole = {name: (tmp_path / "o/evals/math500" / name).read_bytes() for name in ("0.json", "0.parquet")}
        for name, content in whole.items():
            (tmp_path / "o/evals/math500" / name).write_bytes(content[: len(content) // 2])
        path = stored(tmp_path)
        path.write_bytes(path.read_bytes()[:-20])
        assert main(words(url, tmp_path)) == 0
        assert len(bodies) == 4
    assert "the last line was not finished; those outputs count as not generated" in capsys.readouterr().out
    assert (tmp_path / "o/evals/math500/0.json").read_bytes() == whole["0.json"]
    assert len(pd.read_parquet(tmp_path / "o/evals/math500/0.parquet")) == 3


def test_a_torn_header_is_written_again_and_a_damaged_one_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_data(tmp_path / "data", 2)
    stored(tmp_path).parent.mkdir(parents=True)
    stored(tmp_path).write_bytes(b'{"kind": "hea')
    with server(right) as (url, _):
        assert main(words(url, tmp_path)) == 0
        stored(tmp_path).write_bytes(b"#" + stored(tmp_path).read_bytes())
        assert main(words(url, tmp_path)) == 2
    assert "its first line, which says how the outputs were made, is damaged" in last_line(capsys.readouterr().err)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))


def test_a_full_disk_is_told_in_one_line_and_nothing_is_lost(tmp_path: Path) -> None:
    make_data(tmp_path / "data", 6)
    with server(right) as (url, bodies):
        command = [sys.executable, "-m", "harness", *words(url, tmp_path, "concurrency=1")]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert last_line(done.stderr).startswith("error: no space left to write")
        assert "choose another disk with out=FOLDER" in last_line(done.stderr)
        kept = stored(tmp_path).read_bytes()
        assert 1000 < len(kept) <= 1500
        complete = kept.count(b"\n") - 1
        asked = len(bodies)
        assert 0 < complete < 6
        assert main(words(url, tmp_path)) == 0
        assert len(bodies) - asked == 6 - complete
    assert result(tmp_path)["complete"]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_small_disk_that_fills_up(tmp_path: Path) -> None:
    make_data(tmp_path / "data", 6)
    place = tmp_path / "o"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(place)], capture_output=True)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        with server(lambda *_: "long " * 400) as (url, _):
            command = [sys.executable, "-m", "harness", *words(url, tmp_path, "concurrency=1")]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, "Traceback" in done.stderr) == (2, False)
            assert last_line(done.stderr).startswith("error: no space left to write")
            subprocess.run(["mount", "-o", "remount,size=1m", str(place)], check=True)
            assert main(words(url, tmp_path)) == 0
        lines = stored(tmp_path).read_text().splitlines()
        assert len({json.loads(line)["question"] for line in lines[1:]}) == len(lines) - 1 == 6
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_benchmark_without_data_says_how_to_fetch_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_data(tmp_path / "data", 2)
    shutil.rmtree(tmp_path / "data/math500")
    with server(right) as (url, _):
        assert main(words(url, tmp_path)) == 2
    assert "data fetch math500" in last_line(capsys.readouterr().err)


def test_a_category_file_that_is_missing(tmp_path: Path) -> None:
    folder = _environment(tmp_path)
    (path,) = folder.glob("lib/*/site-packages/bfcl_eval/data/BFCL_v4_multiple.json")
    path.unlink()
    with BfclWorker(Sandbox(), folder) as worker:
        assert len(worker.truth("live_parallel")) == 16
        from harness.errors import UserError

        with pytest.raises(
            UserError, match=r"cannot read category multiple \(FileNotFoundError.*run `python -m harness"
        ):
            worker.cases("multiple")
        with pytest.raises(UserError, match="cannot read category multiple"):
            worker.truth("multiple")


def _environment(tmp_path: Path) -> Path:
    try:
        folder = environment.environment()
    except UserError as error:
        pytest.skip(str(error))
    if Sandbox().problem():
        pytest.skip("no sandbox here")
    return Path(shutil.copytree(folder, tmp_path / "environment", symlinks=True))


CALL = '<tool_call>\n{"name": "f", "parameters": {"n": %d}}\n</tool_call>'
USER = ({"role": "user", "content": "go"},)


def talk(first: str, *texts: str) -> Content:
    """Outputs of a conversation of one turn, stored in this order; ``f`` says ``done`` each time."""
    content, conversation = Content(header={}), Conversation(Case("multi_turn_base_0", (USER,), (), 20))
    for number, text in enumerate([first, *texts]):
        request = conversation.request(0)
        generation = Generation(request.key, text, 1, None, "stop")
        content.outputs[request.key] = Stored(generation, request.prompt_sha256, 2 + number)
        conversation.advance(generation, done)
    return content


def done(_: str, steps: Any) -> list[str]:
    return ["done"] * len(steps[-1])


def test_outputs_to_another_conversation_are_not_mixed_in() -> None:
    """A first output that was generated again makes what was said after the old one void."""
    case = Case("multi_turn_base_0", (USER,), (), 20)
    content = talk(CALL % 1, CALL % 2, "enough")
    (whole,) = replay([case], content, 0, done)
    assert (whole.missing, len(whole.outputs[0])) == (False, 3)
    first = content.outputs["multi_turn_base_0", 0, 0, 0]
    key = first.generation.key
    again = Generation(key, CALL % 7, 1, None, "stop")
    content.outputs[key] = Stored(again, first.prompt_sha256, 9)
    (void,) = replay([case], content, 0, done)
    assert (void.missing, void.outputs) == (True, [[CALL % 7]])
    content.outputs[key] = Stored(first.generation, first.prompt_sha256, 9)
    (same,) = replay([case], content, 0, done)
    assert (same.missing, same.outputs) == (False, whole.outputs)

"""The maths evaluation through a misbehaving endpoint, killed and resumed, and scored by hand."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evaluation_data import make_data
from evaluation_server import CUT, completion, kill_command_after, server

from harness.cli import main
from harness.errors import UserError
from harness.evaluation import maths, outputs
from harness.evaluation.backends import endpoint as endpoint_module
from harness.evaluation.backends.endpoint import Patience
from harness.evaluation.outputs import Content, Stored, Writer
from harness.evaluation.pipeline import Source
from harness.evaluation.sampling import Generation, Request, Sampling
from harness.tasks.library import Library

SAMPLING = Sampling(0.6, 0.95, 32768, None, 2, 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Patience.__init__

    def patient(self: Patience, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **{"first": 0.01, "longest": 0.05, **kwargs})

    monkeypatch.setattr(endpoint_module.Patience, "__init__", patient)


def right(_: int, body: dict[str, Any]) -> str:
    number = re.search(r"is (\d+)\?", body["messages"][0]["content"])
    assert number
    return f"so \\boxed{{{number[1]}}}"


def words(url: str, tmp_path: Path, *more: str) -> list[str]:
    return [
        "evaluate",
        "benchmark=math500",
        f"endpoint={url}",
        f"data.root={tmp_path}/data",
        f"out={tmp_path}/o",
        *more,
    ]


def stored_lines(tmp_path: Path) -> list[dict[str, Any]]:
    text = (tmp_path / "o/evals/math500/0/generations.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_every_kind_of_failure_is_tried_again(data: Path, tmp_path: Path) -> None:
    bad = [
        (429, b"", {"Retry-After": "0.01"}),
        (500, b"oops", {}),
        CUT,
        (200, b"", {}),
        (200, b"\xff\xfe", {}),
        (200, b'{"choices": []}', {}),
        (200, completion("").replace(b'"completion_tokens": 1', b'"completion_tokens": 0'), {}),
    ]

    def answer(number: int, body: dict[str, Any]) -> Any:
        return bad[number] if number < len(bad) else right(number, body)

    with server(answer) as (url, bodies):
        assert main(words(url, tmp_path, "samples=2", "concurrency=1", "tries=9")) == 0
        assert len(bodies) == len(bad) + 12
    lines = stored_lines(tmp_path)
    assert lines[0]["engine"] == "endpoint"
    assert lines[0]["sampling"]["temperature"] == 0.6
    assert len({(line["question"], line["sample"]) for line in lines[1:]}) == len(lines) - 1 == 12
    assert len({line["seed"] for line in lines[1:]}) == 12
    result = json.loads((tmp_path / "o/evals/math500/0.json").read_bytes())
    assert result["metrics"]["accuracy"] == result["metrics"]["accuracy/math500"] == 1.0
    assert result["complete"]
    assert result["cells"]["math500"]["outputs"] == 12


def test_a_refusing_server_ends_it_and_says_why(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(lambda *_: (400, b"unknown field top_k", {})) as (url, _):
        assert main(words(url, tmp_path, "samples=1")) == 2
    assert (
        "answers status 400: unknown field top_k; if it does not know a field, give extra={}" in capsys.readouterr().err
    )


def test_a_prompt_without_room_is_an_empty_truncated_answer(data: Path, tmp_path: Path) -> None:
    with server(lambda *_: (400, b"This model's maximum context length is 9", {})) as (url, _):
        assert main(words(url, tmp_path, "samples=1")) == 0
    result = json.loads((tmp_path / "o/evals/math500/0.json").read_bytes())
    assert result["metrics"]["truncated"] == 1.0
    assert result["metrics"]["accuracy"] == 0.0


def test_a_dead_server_keeps_what_arrived_and_resumes(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with server(lambda n, body: right(n, body) if n < 3 else (503, b"", {})) as (url, _):
        assert main(words(url, tmp_path, "samples=2", "concurrency=1", "tries=2", "model_name=m")) == 2
    assert "give the same command again" in capsys.readouterr().err
    assert len(stored_lines(tmp_path)) == 4
    with (tmp_path / "o/evals/math500/0/generations.jsonl").open("ab") as file:
        file.write(b'{"question": "math500/5", "sam')
    with server(right) as (other, bodies):
        port = url.rsplit(":", 1)[1]
        path = tmp_path / "o/evals/math500/0/generations.jsonl"
        path.write_bytes(path.read_bytes().replace(port.encode(), other.rsplit(":", 1)[1].encode()))
        assert main(words(other, tmp_path, "samples=2", "model_name=m")) == 0
        assert len(bodies) == 9
    assert len(stored_lines(tmp_path)) == 13


def test_other_settings_are_not_mixed(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with server(right) as (url, _):
        assert main(words(url, tmp_path, "samples=1")) == 0
        assert main(words(url, tmp_path, "samples=1", "temperature=1.0")) == 2
        assert "holds outputs made with sampling=" in capsys.readouterr().err
        assert main(words(url, tmp_path, "samples=1", 'extra={"top_k": 5}')) == 2
        assert "holds outputs made with extra=" in capsys.readouterr().err
        assert main(words(url, tmp_path, "samples=2")) == 0


def test_what_else_changes_is_written_down(tmp_path: Path) -> None:
    """Another version of the engine may go on; from where, the file says."""
    path = tmp_path / "g.jsonl"
    question = [Request((f"q{index}", 0, 0, 0), ({"role": "user", "content": "x"},), 1) for index in range(2)]
    for request, version in zip([*question, question[0]], ("1", "2", "2"), strict=True):
        with Writer(path, {"benchmark": "b", "engine": "e", "version": version}) as writer:
            if writer.content.answer(request) is None:
                writer.add(request, Generation(request.key, "text", 1, None, "stop"))
    kinds = [json.loads(line).get("version") for line in path.read_text().splitlines()]
    assert kinds == ["1", None, "2", None]
    source = Source.of(outputs.read(path))
    assert (source.header["version"], source.changes) == ("1", [{"version": "2"}])


def test_nobody_listens(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words("http://127.0.0.1:9", tmp_path, "samples=1")) == 2
    assert "does not say which model it serves" in capsys.readouterr().err


def test_kill_minus_nine_and_resume(data: Path, tmp_path: Path) -> None:
    def slow(number: int, body: dict[str, Any]) -> str:
        time.sleep(0.2)
        return right(number, body)

    with server(slow) as (url, bodies):
        kill_command_after(6, bodies, words(url, tmp_path, "samples=4", "concurrency=2"))
        before = len(stored_lines(tmp_path)) - 1
        assert 0 < before < 24
        assert main(words(url, tmp_path, "samples=4", "concurrency=24")) == 0
    lines = stored_lines(tmp_path)[1:]
    assert len(lines) == len({(line["question"], line["sample"]) for line in lines}) == 24


def content_of(answers: dict[tuple[str, int], tuple[str, int, str]], asked: list[maths.Question]) -> Content:
    content = Content(header={})
    for question in asked:
        for sample in range(SAMPLING.samples):
            request = question.request(sample, 0)
            if (question.identifier, sample) in answers:
                text, tokens, finish = answers[question.identifier, sample]
                content.outputs[request.key] = Stored(
                    Generation(request.key, text, tokens, 5, finish), request.prompt_sha256
                )
    return content


def test_scores_by_hand(data: Path) -> None:
    asked = maths.questions("math500", Library(data))[:2]
    answers = {
        ("math500/0", 0): ("\\boxed{0}", 10, "stop"),
        ("math500/0", 1): ("\\boxed{0.0}", 4001, "stop"),  # strict says no, the fallback rescues, too long
        ("math500/1", 0): ("no box", 32768, "length"),
        ("math500/1", 1): ("\\boxed{1}", 4000, "stop"),
    }
    scored = maths.score("math500", asked, content_of(answers, asked), SAMPLING)
    metrics = maths.results([scored], {"math500": 2}, SAMPLING)["metrics"]
    assert metrics["accuracy"] == 0.75
    assert metrics["accuracy_strict"] == 0.5
    assert metrics["exceed"] == 0.5
    assert metrics["joint"] == 0.5
    assert metrics["truncated"] == 0.25
    assert metrics["failure/no_box/math500"] == 0.25


def test_missing_and_stale_outputs_are_counted(data: Path) -> None:
    asked = maths.questions("math500", Library(data))[:2]
    content = content_of({("math500/0", 0): ("\\boxed{0}", 10, "stop")}, asked)
    content.outputs["gone", 0, 0, 0] = Stored(Generation(("gone", 0, 0, 0), "", 1, 1, "stop"), "")
    scored = maths.score("math500", asked, content, SAMPLING)
    result = maths.results([scored], {"math500": 2}, SAMPLING)
    assert (scored.missing, scored.stale) == (3, 1)
    assert not result["complete"]
    assert result["metrics"]["accuracy/math500"] == 1.0


def test_the_macro_mean_needs_every_benchmark(data: Path) -> None:
    parts = []
    for name in ("math500", "minerva"):
        asked = maths.questions(name, Library(data))[:1]
        answers = {(f"{name}/0", sample): ("\\boxed{0}", 10, "stop") for sample in range(2)}
        parts.append(maths.score(name, asked, content_of(answers, asked), SAMPLING))
    assert maths.results(parts, {"math500": 1, "minerva": 1}, SAMPLING)["metrics"]["accuracy"] == 1.0
    parts[1] = maths.Scored("minerva", parts[1].samples.iloc[:1], 1, 0)
    assert maths.results(parts, {"math500": 1, "minerva": 1}, SAMPLING)["metrics"]["accuracy"] is None


def test_a_limited_evaluation_has_a_name_of_its_own(data: Path, tmp_path: Path) -> None:
    with server(right) as (url, _):
        assert main(words(url, tmp_path, "samples=1", "limit=2")) == 0
    assert not (tmp_path / "o/evals/math500/0.json").exists()
    table = pd.read_parquet(tmp_path / "o/evals/math500.first2/0.parquet")
    assert len(table) == 2


def test_damaged_lines_are_reported_and_the_first_of_two_counts(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    request = Request(("q", 0, 0, 0), ({"role": "user", "content": "x"},), 1)
    with Writer(path, {"benchmark": "b"}) as writer:
        writer.add(request, Generation(request.key, "first \ud800", 1, None, "stop"))
        writer.add(request, Generation(request.key, "second", 1, None, "stop"))
    with path.open("ab") as file:
        file.write(b"\xff\n[]\n{}\n")
    content = outputs.read(path)
    answer = content.answer(request)
    assert answer is not None
    assert answer.text == "first \ud800"
    assert (content.repeated, content.damaged) == (1, [4, 5, 6])


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    with Writer(path, {}), pytest.raises(UserError, match="another process is writing it"):
        Writer(path, {})

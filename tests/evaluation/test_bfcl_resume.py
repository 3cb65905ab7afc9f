"""Conversations with a model behind an endpoint, killed with kill -9 and gone on with."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from evaluation_server import kill_command_after, server

from harness.cli import main
from harness.errors import UserError
from harness.evaluation.bfcl.environment import environment
from harness.evaluation.bfcl.prompts import AFTER_EXECUTION
from harness.evaluation.sandbox import Sandbox

CALL = '<think> so </think>\n<tool_call>\n{"name": "ls", "parameters": {}}\n</tool_call>'
ANSWER = "<think> so </think>\n<response> done </response>"


def answer(_: int, body: dict[str, Any]) -> str:
    """Lists the folder once in each turn, then says that it is done."""
    time.sleep(0.1)
    return ANSWER if AFTER_EXECUTION in body["messages"][1]["content"] else CALL


def words(url: str, out: Path) -> list[str]:
    categories = "categories=live_parallel,multi_turn_base"
    return ["evaluate", "benchmark=bfcl_v4", f"endpoint={url}", f"out={out}", "limit=3", categories, "concurrency=2"]


def lines(out: Path) -> list[dict[str, Any]]:
    text = (out / "evals/bfcl_v4/0/generations.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()[1:]]


@pytest.mark.slow
def test_kill_minus_nine_in_a_conversation(tmp_path: Path) -> None:
    try:
        environment()
        Sandbox.of("auto")
    except UserError as error:
        pytest.skip(str(error))
    with server(answer) as (url, bodies):
        kill_command_after(14, bodies, words(url, tmp_path / "killed"))
        before, kept = len(bodies), lines(tmp_path / "killed")
        assert 10 <= len(kept) <= before
        assert main(words(url, tmp_path / "killed")) == 0
        resumed = len(bodies) - before
        assert main(words(url, tmp_path / "whole")) == 0
    outputs = lines(tmp_path / "killed")
    keys = [(line["question"], line["turn"], line["step"]) for line in outputs]
    assert len(set(keys)) == len(keys) == len(kept) + resumed
    assert outputs[: len(kept)] == kept
    whole = lines(tmp_path / "whole")
    assert {(line["question"], line["turn"], line["step"]): line for line in whole} == dict(
        zip(keys, outputs, strict=True)
    )
    results = [
        json.loads((tmp_path / name / "evals/bfcl_v4.first3/0.json").read_bytes()) for name in ("killed", "whole")
    ]
    assert results[0] == results[1]
    assert results[0]["cells"]["multi_turn_base"]["outputs"] > 12
    assert results[0]["metrics"]["format/multi_turn_base"] == 1.0

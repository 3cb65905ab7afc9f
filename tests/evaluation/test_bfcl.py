"""bfcl-eval in its sandbox: verdicts on ground truth, and hostile calls. Needs `python -m harness doctor bfcl`."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.evaluation.bfcl.categories import CASES
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.environment import environment
from harness.evaluation.sandbox import Sandbox

UNREACHABLE = {"live_multiple": 2, "live_simple": 2, "simple_java": 4}
"""Cases whose own ground truth the official checker refuses, at most."""


@pytest.fixture(scope="module", params=["namespaces", pytest.param("bubblewrap", marks=pytest.mark.slow)])
def worker(request: pytest.FixtureRequest) -> Iterator[BfclWorker]:
    try:
        environment()
    except UserError as error:
        pytest.skip(str(error))
    problem = Sandbox(request.param).problem()
    if problem:
        pytest.skip(f"no sandbox by {request.param} here: {problem}")
    with BfclWorker(Sandbox(request.param)) as started:
        yield started


@pytest.mark.parametrize("category", ["simple_java", "live_parallel", "multi_turn_base"])
def test_ground_truth_is_right_and_nothing_is_wrong(category: str, worker: BfclWorker) -> None:
    for case, truth in list(worker.truth(category).items())[:2]:
        assert worker.judge(case, truth.decoded()) == (True, "")
        empty = [[] for _ in truth.value] if truth.multi_turn else []
        assert not worker.judge(case, empty)[0]


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["namespaces"], indirect=True)
def test_every_ground_truth(worker: BfclWorker) -> None:
    for category, count in CASES.items():
        verdicts = [worker.judge(case, truth.decoded())[0] for case, truth in worker.truth(category).items()]
        assert len(verdicts) == count
        assert count - sum(verdicts) <= UNREACHABLE.get(category, 0), category


HOSTILE = {
    "read": "print(open('{path}').read())",
    "write": "open('{path}', 'w').write('gone')",
    "shell": "__import__('os').system('echo gone > {path}')",
    "kill the worker": "__import__('os').kill(1, 9)",
    "leave": "__import__('os')._exit(0)",
    "memory bomb": "bytearray(1 << 40)",
    "fork bomb": "[__import__('os').fork() for _ in range(99)]",
    "connect": "__import__('socket').create_connection(('127.0.0.1', {port}), 1) and 'over'",
    "forge": "__import__('os').write(1, b'{\"valid\": true}\\n')",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_calls_are_contained(name: str, worker: BfclWorker, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush")
    case, truth = next(iter(worker.truth("multi_turn_base").items()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        call = HOSTILE[name].replace("{path}", str(secret)).replace("{port}", str(listener.getsockname()[1]))
        results = worker.execute(case, [[call]])
    assert len(results) == 1
    assert "hush" not in results[0]
    assert "over" not in results[0] or name != "connect"
    assert secret.read_text() == "hush"
    spoilt = [[[call], *steps] if index == 0 else steps for index, steps in enumerate(truth.decoded())]
    worker.judge(case, spoilt)
    assert worker.judge(case, truth.decoded()) == (True, "")


@pytest.mark.slow
@pytest.mark.parametrize("worker", ["namespaces"], indirect=True)
def test_an_endless_loop_is_ended_and_reported(worker: BfclWorker) -> None:
    case, truth = next(iter(worker.truth("multi_turn_base").items()))
    call = "next(item for item in iter(int, 1) if item)"
    assert worker.execute(case, [[call]])[0].startswith("Error during execution: sandbox:")
    valid, error = worker.judge(case, [[[call]]] + [[] for _ in truth.value[1:]])
    assert not valid
    assert error.startswith("sandbox:")
    assert worker.judge(case, truth.decoded()) == (True, "")


def test_a_perfect_answer_after_a_broken_one_stays_perfect(worker: BfclWorker) -> None:
    case, truth = list(worker.truth("multi_turn_base").items())[1]
    broken = [[["mkdir(dir_name='unwanted')"], *steps] for steps in truth.decoded()]
    assert not worker.judge(case, broken)[0]
    assert worker.judge(case, truth.decoded()) == (True, "")


def test_the_prompt_s_tools_have_the_language_s_hints(worker: BfclWorker) -> None:
    answer = worker.cases("simple_java")
    assert answer["tools"][0]["description"].endswith("Note that the provided function is in Java 8 SDK syntax.")
    assert len(answer["cases"]) == 100

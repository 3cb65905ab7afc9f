"""The worker in its sandbox, from the outside: asks, waits for as long as a case may take, starts anew what died."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.evaluation.bfcl import environment
from harness.evaluation.bfcl.truth import Truth
from harness.evaluation.sandbox import Sandbox, SandboxedProcess, interpreter

START_SECONDS = 120.0
ANSWER_SECONDS = 60.0
LARGEST_ANSWER = 256 << 20
_WORKER = Path(__file__).with_name("worker.py")


class WorkerDied(Exception):
    """The worker ended or was silent; it is started again by the next request."""


class BfclWorker:
    """One worker process; a context manager. Every evaluation starts its own: nothing carries over."""

    def __init__(self, sandbox: Sandbox, folder: Path | None = None) -> None:
        self._folder = folder or environment.environment()
        self._sandbox = sandbox
        self._process: SandboxedProcess | None = None
        self._buffer = b""
        self._last_words = ""
        self.restarts = 0
        sandbox.require()

    def __enter__(self) -> BfclWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def cases(self, category: str) -> dict[str, Any]:
        """``cases`` (id, turns, indices into ``tools``), ``tools``, ``steps`` (most steps of a turn)."""
        return self._ask({"do": "cases", "category": category}, category)

    def truth(self, category: str) -> dict[str, Truth]:
        """Ground truth by case id, as bfcl-eval's files have it."""
        answer = self._ask({"do": "truth", "category": category}, category)
        return {
            case: Truth(category, value, answer["parameters"].get(case, answer["parameters"]))
            for case, value in answer["truth"].items()
        }

    def execute(self, case: str, steps: Sequence[Sequence[str]]) -> list[str]:
        """Results of the last step's calls after all steps in fresh instances. What the sandbox ended becomes an error
        text for each call."""
        try:
            answer = self.request({"do": "execute", "id": case, "steps": steps})
        except WorkerDied as error:
            answer = {"error_type": f"sandbox:{error}"}
        results = answer.get("results")
        if (
            not isinstance(results, list)
            or len(results) != len(steps[-1])
            or not all(isinstance(r, str) for r in results)
        ):
            reason = str(answer.get("error_type") or answer.get("problem") or "no result")
            return [f"Error during execution: {reason}"] * len(steps[-1])
        return results

    def judge(self, case: str, decoded: Any) -> tuple[bool, str]:
        """(valid, type of the error) by the official checkers."""
        try:
            answer = self.request({"do": "judge", "id": case, "decoded": decoded})
        except WorkerDied as error:
            return False, f"sandbox:{error}"
        return answer.get("valid") is True, str(answer.get("error_type") or answer.get("problem") or "")

    def request(self, request: dict[str, Any]) -> dict[str, Any]:
        """One exchange. Raises WorkerDied."""
        if self._process is None:
            self._start()
        try:
            line = json.dumps(request)
        except RecursionError as error:
            raise WorkerDied("depth") from error
        assert self._process is not None
        assert self._process.popen.stdin is not None
        try:
            self._process.popen.stdin.write(line.encode() + b"\n")
            self._process.popen.stdin.flush()
            return self._answer(ANSWER_SECONDS)
        except (OSError, ValueError) as error:
            raise self._dead("ended") from error

    def _ask(self, request: dict[str, Any], category: str) -> dict[str, Any]:
        try:
            answer = self.request(request)
        except WorkerDied as error:
            raise UserError(
                f"bfcl-eval's worker {error} while it read {category}; run `{environment.SETUP}`"
            ) from error
        if "problem" in answer:
            raise UserError(
                f"bfcl-eval cannot read category {category} ({answer['problem']}); run `{environment.SETUP}`"
            )
        return answer

    def _start(self) -> None:
        program, readable = interpreter(environment.python_of(self._folder))
        variables = {
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "BFCL_PROJECT_ROOT": "/sandbox",
        }
        process = self._sandbox.start([program, str(_WORKER)], [*readable, self._folder, _WORKER], variables)
        self._process, self._buffer = process, b""
        try:
            self._answer(START_SECONDS)
        except (OSError, ValueError, WorkerDied) as error:
            reason = " ".join(self._last_words.split())[-300:] or str(error)
            self.close()
            raise UserError(f"bfcl-eval's worker does not start ({reason}); run `{environment.SETUP}`") from error

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.popen.stdout is not None
        pipe = self._process.popen.stdout.fileno()
        deadline = time.monotonic() + seconds
        parts = [self._buffer]
        size = 0
        while b"\n" not in parts[-1]:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise self._dead("was silent")
            part = os.read(pipe, 1 << 20)
            size += len(part)
            if not part or size > LARGEST_ANSWER:
                raise self._dead("ended")
            parts.append(part)
        line, _, self._buffer = b"".join(parts).partition(b"\n")
        answer = json.loads(line)
        if not isinstance(answer, dict):
            raise ValueError("no object")
        return answer

    def _dead(self, reason: str) -> WorkerDied:
        if self._process is not None:
            self._last_words = self._process.end()
        self.close()
        self.restarts += 1
        return WorkerDied(reason)

"""Which evaluations were asked of a run, and what became of them.

evals/wanted.json              what the commands that started or continued the run asked for, all together
evals/<name>/attempts.jsonl    a line for each attempt at a step: how it ended, how long it took
evals/<name>/log.txt           what the evaluations printed
evals/<name>/<step>.json       the result: an evaluation is stored when this is there and complete
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.config import RunConfig
from harness.errors import UserError
from harness.evaluation.benchmarks import result_name
from harness.store.files import explained, make_folder, write_atomically
from harness.store.lock import read_owner
from harness.store.run import Run
from harness.store.status import RunStatus

NAME = "wanted.json"
ATTEMPTS = "attempts.jsonl"
LOG = "log.txt"
SCHEMA = 1
Outcome = Literal["stored", "failed", "interrupted"]
State = Literal["waiting", "queued", "held", "running", "missing", "failed", "blocked", "done"]


@dataclass(frozen=True)
class Wanted:
    """A benchmark at some steps. ``name``: of the results, ``options``: settings of ``python -m harness evaluate``."""

    name: str
    benchmark: str
    steps: tuple[int, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class EvaluationStatus:
    """``stored`` of ``steps`` are there; ``reason`` says why the others are not.

    waiting: for the training; blocked: the training failed; missing: nobody evaluates; failed: an attempt did, and
    wants retry=true; queued, held, running: as of a run; done: all are stored.
    """

    state: State
    reason: str
    stored: tuple[int, ...]
    steps: tuple[int, ...]
    failed: tuple[int, ...]

    @property
    def missing(self) -> tuple[int, ...]:
        """Steps that a launcher may evaluate without being told to retry."""
        return tuple(step for step in self.steps if step not in (*self.stored, *self.failed))


def wanted_of(config: RunConfig) -> list[Wanted]:
    """What a configuration asks for."""
    evaluation = config.evaluation
    if not evaluation.at:
        return []
    options = dict(evaluation.options)
    if config.data.root is not None:
        options.setdefault("data.root", config.data.root)
    return [
        Wanted(result_name(benchmark, options.get("limit")), benchmark, tuple(evaluation.at), options)
        for benchmark in evaluation.benchmarks
    ]


def ask(run: Run, config: RunConfig) -> list[Wanted]:
    """Note what ``config`` asks for, beside what was asked before (the newest options count); returns it."""
    asked = wanted_of(config)
    if asked:
        known = {item.name: item for item in wanted(run)}
        together = dict(known)
        for item in asked:
            before = known[item.name].steps if item.name in known else ()
            together[item.name] = Wanted(
                item.name, item.benchmark, tuple(sorted({*before, *item.steps})), dict(item.options)
            )
        if together != known:
            _write(run, list(together.values()))
    return asked


def wanted(run: Run) -> list[Wanted]:
    """Everything that was asked of the run. Raises :class:`UserError` when the file is damaged."""
    path = run.evaluations.folder / NAME
    try:
        content = json.loads(path.read_bytes())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']} is not known")
        return [
            Wanted(str(name), str(item["benchmark"]), tuple(map(int, item["steps"])), dict(item["options"]))
            for name, item in content["evaluations"].items()
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete it, the next command writes it again") from error


def _write(run: Run, items: Sequence[Wanted]) -> None:
    content = {
        "schema": SCHEMA,
        "evaluations": {
            item.name: {"benchmark": item.benchmark, "steps": list(item.steps), "options": dict(item.options)}
            for item in items
        },
    }
    make_folder(run.evaluations.folder)
    write_atomically(run.evaluations.folder / NAME, (json.dumps(content, indent=1) + "\n").encode())


def folder_of(run: Run, name: str) -> Path:
    return run.evaluations.folder / name


def note_attempt(run: Run, name: str, step: int, outcome: Outcome, seconds: float, error: str | None) -> None:
    """Add a line to the attempts of ``name``."""
    line = {"step": step, "outcome": outcome, "seconds": round(seconds, 1), "error": error, "time": time.time()}
    path = folder_of(run, name) / ATTEMPTS
    make_folder(path.parent)
    with explained(path):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)


def attempts(run: Run, name: str) -> list[dict[str, Any]]:
    """Every attempt that ended by itself, in order; unreadable lines are left out."""
    try:
        lines = (folder_of(run, name) / ATTEMPTS).read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            attempt = json.loads(line)
            if isinstance(attempt["step"], int) and float(attempt["time"]) and attempt["outcome"]:
                found.append(attempt)
    return found


def stored_steps(run: Run, item: Wanted) -> tuple[tuple[int, ...], dict[int, dict[str, Any]]]:
    """(steps with a complete result, steps whose last attempt failed -> that attempt).

    A result that was written after the failure counts: somebody made it by hand.
    """
    last = {attempt["step"]: attempt for attempt in attempts(run, item.name)}
    stored, failed = [], {}
    for step in item.steps:
        attempt = last.get(step)
        try:
            written = run.evaluations.path(item.name, step).stat().st_mtime
        except OSError:
            written = None
        if attempt is not None and attempt["outcome"] == "failed" and (written is None or written <= attempt["time"]):
            failed[step] = attempt
        elif written is not None:
            stored.append(step)
    return tuple(stored), failed


def progress(run: Run, name: str) -> int:
    """A number that grows with every output and every result that is stored."""
    files = [*folder_of(run, name).glob("*.json"), *run.evaluations.folder.glob("*/*/generations.jsonl")]
    total = 0
    for path in files:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


def evaluation_status(run: Run, item: Wanted, training: RunStatus) -> EvaluationStatus:
    """From the store alone; what a scheduler knows of it comes on top (``status_sources``)."""
    stored, failed = stored_steps(run, item)

    def status(state: State, reason: str) -> EvaluationStatus:
        return EvaluationStatus(state, reason, stored, item.steps, tuple(failed))

    many = f"{len(stored)} of {len(item.steps)} stored"
    if len(stored) == len(item.steps):
        return status("done", many)
    owner = read_owner(folder_of(run, item.name))
    if owner is not None and owner.alive:
        return status("running", f"{many}, {owner}")
    if failed:
        step, attempt = next(iter(failed.items()))
        return status("failed", f"{many}, step {step}: {attempt['error']}")
    left = ", ".join(str(step) for step in item.steps if step not in stored)
    if training.state in ("failed", "damaged"):
        return status("blocked", f"{many}, not run: the training is {training.state}: {training.reason}")
    if training.state != "done":
        return status("waiting", f"{many}, the training is {training.state}")
    return status("missing", f"{many}, not evaluated: step {left}; the command that asked for it continues")

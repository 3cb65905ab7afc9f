"""Takes the place of ``python -m harness evaluate`` in tests: imported by ``sitecustomize`` of every process whose
PYTHONPATH has it. ``STAND_IN`` (JSON) says: ``seconds`` an evaluation takes, ``fail_at`` a step, ``incomplete_at``.

Like the real command it goes on from what is stored: each answer is a line of ``answers.txt``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

ANSWERS = 10


def install() -> None:
    from harness import cli

    cli.COMMANDS["evaluate"] = cli.Command("stand_in_evaluate", "a stand-in")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+")


def main(args: argparse.Namespace) -> int:
    from harness.errors import UserError
    from harness.store import Run

    behaviour = json.loads(os.environ.get("STAND_IN", "{}"))
    settings = dict(word.split("=", 1) for word in args.words)
    run, step = Run(Path(settings["run"])), int(settings["step"])
    folder = run.evaluations.path(settings["benchmark"], step).with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    answers = folder / "answers.txt"
    with open(run.path / "evaluated.txt", "a") as file:
        file.write(f"{settings['benchmark']} {step} {os.getpid()}\n")
    print(f"evaluating step {step}", flush=True)
    if step == behaviour.get("fail_at"):
        raise UserError(f"no checkpoint of step {step}; choose another")
    done = len(answers.read_text().splitlines()) if answers.exists() else 0
    for number in range(done, ANSWERS):
        time.sleep(behaviour.get("seconds", 0.0) / ANSWERS)
        with open(answers, "a") as file:
            file.write(f"{number}\n")
    run.evaluations.write(settings["benchmark"], step, {"n": ANSWERS, "metrics": {"step": float(step)}}, None)
    return 1 if step == behaviour.get("incomplete_at") else 0

"""Small logs in every format, of one hand-made batch, and what reading them must give."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.diagnose.columns import Choice
from harness.diagnose.reading import Log, read_log
from harness.diagnose.report import diagnose

# Two prompts of two responses and one of four. correctness varies in a and c, format in c alone.
BATCH = [
    ("a", 1.0, 1.0),
    ("a", 0.0, 1.0),
    ("b", 1.0, 1.0),
    ("b", 1.0, 1.0),
    ("c", 1.0, 0.0),
    ("c", 0.0, 1.0),
    ("c", 1.0, 0.0),
    ("c", 0.0, 1.0),
]


def rows(step: int = 1, **more: Any) -> list[dict[str, Any]]:
    return [
        {
            "step": step,
            "uid": uid,
            "input": f"prompt {uid}",
            "output": "text",
            "score": c + f,
            "correctness": c,
            "format": f,
        }
        | more
        for uid, c, f in BATCH
    ]


def jsonl(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def as_csv(path: Path, records: list[dict[str, Any]], **options: Any) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]), **options)
        writer.writeheader()
        writer.writerows(records)
    return path


EXPECTED = {"correctness": (5 / 8, 2 / 3), "format": (6 / 8, 1 / 3)}
"""Channel: mean, density."""


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


@pytest.fixture
def harness(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python -m harness ...`` in a folder of its own."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "harness", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    return call

"""Small logs in every format, of one hand-made batch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture
def harness(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """``python -m harness ...`` in a folder of its own."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "harness", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False)

    return call

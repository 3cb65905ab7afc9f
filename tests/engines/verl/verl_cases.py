"""What several tests of the verl engine share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]

try:
    version("verl")
    INSTALLED = True
except PackageNotFoundError:
    INSTALLED = False

needs_verl = [
    pytest.mark.verl,
    pytest.mark.skipif(not INSTALLED, reason="verl is not installed: pip install -e '.[verl,test]'"),
]


def infos_of(channels: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What a reward function returns for each response, from channel -> values."""
    count = len(next(iter(channels.values())))
    rows = [{name: values[row] for name, values in channels.items()} for row in range(count)]
    for row in rows:
        row["score"] = sum(value for value in row.values() if value is not None)
    return rows


def run_python(
    arguments: list[str], *, timeout: float, standard_input: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A subprocess from the root of the repository."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

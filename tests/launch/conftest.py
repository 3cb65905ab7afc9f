"""Matrices of a fake engine, in real worker processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "store"))
sys.path.insert(0, str(Path(__file__).parent))

from store_configs import small_config

from harness.config import RunConfig
from harness.store import RunStore

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

MakeRun = Callable[..., RunConfig]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@pytest.fixture
def make_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    """``make_run(method, **options of the fake engine)``; the workers find the engine through PYTHONPATH."""
    package = tmp_path / "plugins" / "fakes"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "engine.py").write_text((HERE / "fake_engine.py").read_text())
    paths = [str(package.parent), str(ROOT), str(HERE), str(HERE.parent / "store")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    monkeypatch.syspath_prepend(package.parent)

    def make(method: str = "gdpo", *, steps: int = 5, seed: int = 0, task: str = "tool_calling", **options: object):
        return small_config(
            method=method, steps=steps, seed=seed, task=task, engine="fakes.engine", options=dict(options)
        )

    return make

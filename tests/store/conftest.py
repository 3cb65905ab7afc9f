"""Runs to store: small configurations that need neither Hydra nor an engine."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from store_configs import small_config

from harness.config import RunConfig
from harness.store import RunStore


@pytest.fixture
def config() -> RunConfig:
    return small_config()


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs")


@pytest.fixture
def other_seed(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, seed=1)

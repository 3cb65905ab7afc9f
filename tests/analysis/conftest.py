"""The published results, read once; helpers of this folder on the path."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.analysis.collect import REFERENCE
from harness.analysis.published import published
from harness.analysis.results import Results

FOLDER = Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER), str(FOLDER.parent / "store")]


@pytest.fixture(scope="session")
def published_results() -> Results:
    return published(REFERENCE)

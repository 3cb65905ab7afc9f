"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parents[1]

settings.register_profile("harness", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("harness")


@pytest.fixture(scope="session")
def repository() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def reference_material() -> Path:
    """Folder with cases and real data rows (``DARA_SHARED``); tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("DARA_SHARED", ROOT.parent / "shared"))
    if not (folder / "cases").is_dir():
        pytest.skip(f"no reference material in {folder}; set DARA_SHARED to a folder that has cases/ and data/")
    return folder


@pytest.fixture(scope="session")
def installed() -> Callable[[Path, str, str], Path]:
    """Writes what pip leaves beside the module of a package that offers one method, and returns its folder."""

    def write(folder: Path, module: str, method: str) -> Path:
        name = module.replace("_", "-")
        metadata = folder / f"{module}-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[dara_harness.methods]\n{method} = {module}:{method}\n")
        return metadata

    return write

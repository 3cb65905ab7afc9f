"""A real SLURM for the tests marked ``slurm``: started once, two nodes on this machine, stopped at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from slurm_shell import Shell, start_cluster, user_of


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    started = start_cluster(nodes=2, grace=2, kill_wait=3)
    yield started
    started.stop(wipe=True)


@pytest.fixture
def shell(cluster: Any, tmp_path: Path) -> Iterator[Shell]:
    with user_of(cluster, tmp_path) as user:
        yield user

"""Builds or downloads what the runs share, here where there is a network, before any job starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import UserError
from harness.store.provenance import CODE_ROOT


def prepare(folders: Sequence[Path]) -> None:
    """Calls each engine's ``prepare`` for the runs in these folders, in a process of its own. Raises UserError."""
    paths = [str(CODE_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    done = subprocess.run(
        [sys.executable, "-m", "harness.launch.prepare"],
        input="".join(f"{folder}\n" for folder in folders),
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)},
        check=False,
    )
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode:
        raise UserError(f"preparing the runs failed (exit code {done.returncode}); see above; nothing was submitted")

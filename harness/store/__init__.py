"""The run store: what remains of a run, on disk, and who is working on it. Analysis reads nothing else.

runs/<run_id>/config.yaml     the resolved configuration; its hash is part of the folder's name
              manifest.json   code, packages, seeds, hashes, host, and one entry per attempt
              metrics.jsonl   one line a step, appended
              evals/<benchmark>/<step>.json (+ .parquet)
              checkpoints/  rollouts/  log.txt  lock/
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.store.lock import LockBusyError, LockLostError
    from harness.store.run import Run
    from harness.store.run_store import RunStore
    from harness.store.status import RunStatus

__all__ = ["LockBusyError", "LockLostError", "Run", "RunStatus", "RunStore"]

_MODULES = {
    "LockBusyError": "lock",
    "LockLostError": "lock",
    "Run": "run",
    "RunStatus": "status",
    "RunStore": "run_store",
}


def __getattr__(name: str) -> Any:
    """Imported when first used (PEP 562): who writes a file with :mod:`harness.store.files` needs no configuration."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)

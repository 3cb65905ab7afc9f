"""The run store: what remains of a run, on disk, and who is working on it. Analysis reads nothing else.

runs/<run_id>/config.yaml     the resolved configuration; its hash is part of the folder's name
              manifest.json   code, packages, seeds, hashes, host, and one entry per attempt
              metrics.jsonl   one line a step, appended
              evals/<benchmark>/<step>.json (+ .parquet)
              checkpoints/  rollouts/  log.txt  lock/
"""

from harness.store.lock import LockBusyError, LockLostError
from harness.store.run import Run
from harness.store.run_store import RunStore
from harness.store.status import RunStatus

__all__ = ["LockBusyError", "LockLostError", "Run", "RunStatus", "RunStore"]

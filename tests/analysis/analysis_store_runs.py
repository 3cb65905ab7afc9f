"""Runs in a store, written as an engine leaves them."""

from __future__ import annotations

import json
from pathlib import Path

from store_configs import small_config

from harness.store import Run, RunStore


def stored_run(root: Path, metrics: str, *, evaluated: int | None = 5, **settings: object) -> Run:
    """A run with ``metrics`` as its log and one held-out evaluation at step ``evaluated``."""
    run = RunStore(root).create(small_config(**settings))
    (run.path / "metrics.jsonl").write_text(metrics)
    if evaluated is not None:
        folder = run.path / "evals" / "pocket"
        folder.mkdir(parents=True)
        content = {"schema": 1, "benchmark": "pocket", "step": evaluated, "n": 8, "metrics": {"reward/format": 1.0}}
        (folder / f"{evaluated}.json").write_text(json.dumps(content))
    return run

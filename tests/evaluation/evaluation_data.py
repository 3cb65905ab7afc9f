"""A data folder with a few questions of each maths benchmark, as `data fetch` would leave it."""

from __future__ import annotations

import json
from pathlib import Path

from harness.tasks import schema
from harness.tasks.datasets import MATHS_BENCHMARKS
from harness.tasks.prompts import Example, maths_messages

QUESTIONS = 6


def make_data(root: Path, count: int = QUESTIONS) -> Path:
    """Question k of every benchmark has the answer k."""
    entries = {}
    for name in MATHS_BENCHMARKS:
        examples = [Example(maths_messages(f"{name}: what is {k}?"), str(k), k) for k in range(count)]
        path = root / name / "test.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        schema.write(path, name, "maths", "test", examples)
        entries[name] = {"origin": "made", "revision": None, "files": {}, "rows": {"test": count}, "converted": {}}
    (root / "lock.json").write_text(json.dumps({"schema": 1, "datasets": entries}))
    return root

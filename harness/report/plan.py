"""``python -m harness.report.plan FILE``: the runs of every study of conf/study, as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from harness.compose import composing
from harness.config import run_id
from harness.matrix import studies, study_runs
from harness.store.files import make_folder, write_atomically


def plan() -> dict[str, dict[str, object]]:
    """Study -> scale and run ids."""
    with composing() as composer:
        found = {name: study_runs(name, composer) for name in studies()}
    return {name: {"scale": runs[0].scale, "runs": [run_id(run) for run in runs]} for name, runs in found.items()}


def main(path: Path) -> None:
    make_folder(path.parent)
    write_atomically(path, (json.dumps(plan(), indent=1) + "\n").encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]))

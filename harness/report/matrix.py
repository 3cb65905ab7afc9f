"""The state of the matrix: each study's runs, how many are done, and the command for those that are not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.report.plan import plan

PREFERRED = ("pocket_smoke", "pocket", "pocket_extended")


@dataclass(frozen=True)
class StudyState:
    """``counts`` by state; ``missing``: runs that were never started. ``command`` brings the study to its end."""

    name: str
    scale: str
    runs: int
    counts: dict[str, int]
    missing: int
    command: str

    @property
    def done(self) -> int:
        return self.counts.get("done", 0)

    @property
    def share(self) -> float:
        return self.done / self.runs if self.runs else 0.0


def study_states(index: pd.DataFrame, results: Path) -> list[StudyState]:
    """Every study, the pocket ones first. Reads results/plan.json, or composes the studies where it is missing."""
    stored = results / "plan.json"
    planned: Mapping[str, Any] = json.loads(stored.read_text(encoding="utf-8")) if stored.exists() else plan()
    known = index[(index["source"] == "ours") & (index["kind"] == "run")].set_index("run_id")["state"]
    names = [name for name in PREFERRED if name in planned]
    names += [name for name in planned if name not in names]
    return [_state(name, str(planned[name]["scale"]), planned[name]["runs"], known) for name in names]


def _state(name: str, scale: str, runs: list[str], known: pd.Series) -> StudyState:
    counts: dict[str, int] = {}
    missing = 0
    for run in runs:
        state = known.get(run)
        if state is None or state == "new":
            missing += 1
        else:
            counts[str(state)] = counts.get(str(state), 0) + 1
    launcher = " hydra/launcher=slurm" if scale == "paper" else ""
    return StudyState(name, scale, len(runs), counts, missing, f"python harness/run.py -m study={name}{launcher}")

"""Results built in memory: runs named method-seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from harness.analysis.results import Results


def build_results(
    curves: Mapping[tuple[str, int], Mapping[str, Sequence[float | None]]],
    *,
    evals: Sequence[tuple[str, int, str, int, str, float]] = (),
    source: str = "ours",
    steps: int | None = None,
    **facts: object,
) -> Results:
    """Runs named method-seed. ``curves``: (method, seed) -> metric -> value at steps 1, 2, ... (None: not logged)."""
    index, metrics = [], []
    for (method, seed), logged in curves.items():
        last = max((len(values) for values in logged.values()), default=0)
        index.append(
            {
                "run_id": f"{method}-{seed}",
                "source": source,
                "kind": "run",
                "scale": "pocket",
                "task": "tool_calling",
                "model": "pocket",
                "method": method,
                "group_size": 4,
                "seed": seed,
                "responses_per_step": 256,
                "setting_id": "setting",
                "family_id": "family",
                "cell_id": method,
                "steps": last if steps is None else steps,
                "last_step": last,
                "state": "done",
                **facts,
            }
        )
        for metric, values in logged.items():
            metrics += [
                {
                    "run_id": f"{method}-{seed}",
                    "source": source,
                    "attempt": 1,
                    "step": step,
                    "metric": metric,
                    "value": v,
                }
                for step, v in enumerate(values, start=1)
                if v is not None
            ]
    rows = [
        {
            "run_id": f"{method}-{seed}",
            "source": source,
            "benchmark": benchmark,
            "step": step,
            "metric": name,
            "value": v,
        }
        for method, seed, benchmark, step, name, v in evals
    ]
    return Results.of(pd.DataFrame(index), pd.DataFrame(metrics), pd.DataFrame(rows))

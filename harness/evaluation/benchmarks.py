"""The names of the benchmarks; importing this costs nothing."""

from __future__ import annotations

from harness.tasks.datasets import MATHS_BENCHMARKS

MATHS, BFCL, POCKET = "maths", "bfcl_v4", "pocket"
BENCHMARKS = (MATHS, *MATHS_BENCHMARKS, BFCL, POCKET)


def result_name(benchmark: str, limit: int | None) -> str:
    """The name under which results are stored; a part of a benchmark gets a name of its own."""
    return benchmark if limit is None else f"{benchmark}.first{limit}"

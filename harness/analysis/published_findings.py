"""Where the published record disagrees with itself. Both values stay in the tables; these are the differences."""

from __future__ import annotations

import pandas as pd

from harness.analysis.results import Results

ROUNDING = 0.5000001e-4
"""A fraction printed as percent with two decimals is off by at most half of the last one."""


def published_findings(results: Results) -> pd.DataFrame:
    return pd.DataFrame({"run_id": [], "source": [], "kind": [], "detail": []})

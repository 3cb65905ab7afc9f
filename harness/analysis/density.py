"""Density, energy and weights over a run (arXiv 2610.00574, Eq. 3 to 6), summarised.

density pi_k: share of groups in which channel k varies; energy E_k: sum of squared advantages; weight omega_k. With
no missing rewards E_k = B pi_k (G - 1) up to eps, B the number of groups trained on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from harness.analysis.frames import records
from harness.analysis.results import Results

W_MAX: Final = 5.0
SLOPE_STEPS: Final = 5


@dataclass(frozen=True)
class Peak:
    """Largest value of a curve, the first step that has it, and all steps that do."""

    value: float
    step: int | None
    ties: tuple[int, ...]


def peak(curve: pd.Series) -> Peak:
    """Peak of the curve as logged, unsmoothed. An empty curve has value NaN and no step."""
    known = curve.dropna()
    if known.empty:
        return Peak(math.nan, None, ())
    best = float(known.max())
    steps = tuple(int(step) for step in known.index[known == best])
    return Peak(best, steps[0], steps)


def area(curve: pd.Series) -> float:
    """Area under the curve in steps (trapezoids between logged steps; a gap is bridged by a straight line)."""
    known = curve.dropna()
    return float(np.trapezoid(known.to_numpy(float), known.index.to_numpy(float))) if len(known) > 1 else math.nan


def fastest_rise(curve: pd.Series, *, width: int = SLOPE_STEPS) -> int | None:
    """Step in the middle of the ``width`` consecutive steps with the steepest least-squares slope, the first of equals.

    None when no ``width`` consecutive steps are logged, or nothing rises. ``width`` must be odd and at least 3.
    """
    if width < 3 or width % 2 == 0:
        raise ValueError(f"width = {width} must be odd and at least 3")
    known = curve.dropna()
    if known.empty:
        return None
    steps = np.arange(int(known.index[0]), int(known.index[-1]) + 1)
    values = known.reindex(steps).to_numpy(float)
    if len(values) < width:
        return None
    offsets = np.arange(width) - width // 2
    slopes = np.convolve(values, offsets[::-1], mode="valid") / (offsets**2).sum()
    if not np.isfinite(slopes).any() or np.nanmax(slopes) <= 0:
        return None
    return int(steps[int(np.nanargmax(slopes)) + width // 2])


def energy_ratio(table: pd.DataFrame, numerator: str, denominator: str) -> pd.Series:
    """E_numerator / E_denominator by step from a run's metrics [step x metric]; from densities where no energy was
    logged (equal, since B and G - 1 cancel). NaN where the denominator is 0."""
    names = [f"energy/{numerator}", f"energy/{denominator}"]
    if not set(names) <= set(table.columns):
        names = [f"density/{numerator}", f"density/{denominator}"]
    if not set(names) <= set(table.columns):
        return pd.Series(np.nan, index=table.index)
    below = table[names[1]]
    return table[names[0]] / below.where(below > 0)


def weighted_energy_ratio(table: pd.DataFrame, numerator: str, denominator: str) -> pd.Series:
    """:func:`energy_ratio` after both channels are multiplied by their weights (Sym: energy times weight squared).
    A weight that was not logged counts as 1."""
    one = pd.Series(1.0, index=table.index)
    above, below = (table.get(f"weight/{name}", one) for name in (numerator, denominator))
    return energy_ratio(table, numerator, denominator) * (above / below) ** 2


def first_cap_step(table: pd.DataFrame, channel: str, *, w_max: float = W_MAX) -> int | None:
    """First step at which the weight cap binds: ``cap_hit`` where logged, else weight >= ``w_max``; None if never."""
    if f"cap_hit/{channel}" in table:
        hit = table[f"cap_hit/{channel}"] > 0.5
    elif f"weight/{channel}" in table:
        hit = table[f"weight/{channel}"] >= w_max
    else:
        return None
    return int(table.index[hit][0]) if hit.any() else None


def energy_check(table: pd.DataFrame, channel: str, groups: float, group_size: int) -> pd.Series:
    """E / (B pi (G - 1)) by step: 1 up to eps unless rewards are missing. ``groups``: B, replaced by ``filter/kept``
    where a filter decided how many groups were trained on. NaN where the channel is dead or nothing was logged."""
    if not {f"energy/{channel}", f"density/{channel}"} <= set(table.columns) or group_size < 2:
        return pd.Series(np.nan, index=table.index)
    kept = table["filter/kept"] if "filter/kept" in table else pd.Series(float(groups), index=table.index)
    expected = kept * table[f"density/{channel}"] * (group_size - 1)
    return table[f"energy/{channel}"] / expected.where(expected > 0)


def metrics_table(results: Results, run_id: str) -> pd.DataFrame:
    """Metrics of one run, step x metric."""
    table = pd.DataFrame(results.metrics_of(run_id))
    return table[table.index >= 0].sort_index()


def density_summary(results: Results, runs: pd.DataFrame, channel: str) -> pd.DataFrame:
    """One row a run: peak and its step, area, step of the fastest rise of the channel's reward, weights, first capped
    step and share of capped steps, largest deviation of the energy check, mean density before and after filtering.
    What a run did not log is NaN or None."""
    rows: list[dict[str, object]] = []
    for run in records(runs):
        table = metrics_table(results, run.run_id)
        empty = pd.Series(dtype=float)
        density = table.get(f"density/{channel}", empty)
        before = table.get(f"density_before_filter/{channel}", empty)
        weight = table.get(f"weight/{channel}", empty)
        top = peak(density)
        checked = pd.Series(dtype=float)
        if not pd.isna(run.group_size) and not pd.isna(run.responses_per_step):
            checked = energy_check(table, channel, run.responses_per_step / run.group_size, int(run.group_size))
        deviation = (checked - 1).abs().max()
        rows.append(
            {
                "run_id": run.run_id,
                "method": run.method,
                "seed": run.seed,
                "group_size": run.group_size,
                "peak": top.value,
                "peak_step": top.step,
                "peak_ties": top.ties,
                "area": area(density),
                "fastest_rise_step": fastest_rise(table.get(f"reward/{channel}", empty)),
                "weight_mean": float(weight.mean()) if len(weight) else math.nan,
                "weight_max": float(weight.max()) if len(weight) else math.nan,
                "first_cap_step": first_cap_step(table, channel),
                "capped_share": _share(table.get(f"cap_hit/{channel}", empty)),
                "energy_check": float(deviation) if not pd.isna(deviation) else math.nan,
                "density_mean": float(density.mean()) if len(density) else math.nan,
                "density_before_filter_mean": float(before.mean()) if len(before) else math.nan,
            }
        )
    return pd.DataFrame(rows)


def _share(flags: pd.Series) -> float:
    return float((flags > 0.5).mean()) if len(flags) else math.nan

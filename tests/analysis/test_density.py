"""Peaks, areas, rises, energies and caps, by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from analysis_results import build_results

from harness.analysis.density import (
    area,
    density_summary,
    energy_check,
    energy_ratio,
    fastest_rise,
    first_cap_step,
    peak,
    weighted_energy_ratio,
)


def test_peak_names_the_first_step_and_all_ties():
    found = peak(pd.Series([0.1, 0.5, 0.2, 0.5], index=[1, 2, 3, 4]))
    assert (found.value, found.step, found.ties) == (0.5, 2, (2, 4))
    assert peak(pd.Series(dtype=float)).step is None


def test_area_bridges_a_gap_by_a_line():
    assert area(pd.Series([0.0, 1.0, 1.0], index=[1, 2, 4])) == pytest.approx(0.5 + 2)
    assert math.isnan(area(pd.Series([1.0], index=[1])))


def test_fastest_rise_is_the_middle_of_the_steepest_steps():
    values = [0.0] * 10 + [0.05, 0.3, 0.6, 0.9, 0.95] + [0.95] * 10
    assert fastest_rise(pd.Series(values, index=range(1, 26))) == 13
    assert fastest_rise(pd.Series([0.5] * 9, index=range(9))) is None
    assert fastest_rise(pd.Series([0.1, 0.2], index=[1, 2])) is None
    gap = pd.Series(values, index=range(1, 26)).drop(13)
    assert fastest_rise(gap) != 13


def test_energy_and_weights():
    table = pd.DataFrame(
        {
            "energy/a": [10.0, 20.0, 5.0],
            "energy/b": [20.0, 20.0, 0.0],
            "weight/a": [2.0, 5.0, 1.0],
            "density/a": [0.5, 1.0, 0.25],
        },
        index=[1, 2, 3],
    )
    assert energy_ratio(table, "a", "b").tolist()[:2] == [0.5, 1.0]
    assert math.isnan(energy_ratio(table, "a", "b")[3])
    assert weighted_energy_ratio(table, "a", "b").tolist()[:2] == [2.0, 25.0]
    assert first_cap_step(table, "a") == 2
    assert first_cap_step(table, "b") is None
    # E = B pi (G - 1): 10 groups of 3
    assert energy_check(table, "a", 10, 3).tolist() == [1.0, 1.0, 1.0]
    table["filter/kept"] = [5.0, 10.0, 10.0]
    assert energy_check(table, "a", 10, 3).tolist() == [2.0, 1.0, 1.0]


def test_summary_of_a_run_that_logged_little():
    results = build_results({("gdpo", 0): {"reward/format": [0.1] * 4}})
    row = density_summary(results, results.runs(), "format").iloc[0]
    assert np.isnan(row["peak"])
    assert row["peak_step"] is None
    assert row["first_cap_step"] is None


def test_summary_before_and_after_the_filter():
    curves = {"density/format": [0.5, 1.0], "density_before_filter/format": [0.2, 0.4], "reward/format": [0.1, 0.2]}
    results = build_results({("gdpo", 0): curves})
    row = density_summary(results, results.runs(), "format").iloc[0]
    assert (row["density_mean"], row["density_before_filter_mean"]) == (0.75, pytest.approx(0.3))

"""Crossings, by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.analysis.thresholds import (
    first_crossing,
    in_responses,
    median_curve,
    stable_crossing,
    sustained_crossing,
)


def curve(values, start=1):
    return pd.Series(values, index=range(start, start + len(values)), dtype=float)


def test_first_and_sustained_differ_at_a_spike():
    spike = curve([0.1, 0.9, 0.2, 0.8, 0.8, 0.9, 0.9])
    assert first_crossing(spike, 0.8).at == 2
    assert sustained_crossing(spike, 0.8, hold=3).at == 4
    assert sustained_crossing(spike, 0.8, hold=4).at == 4
    assert sustained_crossing(spike, 0.8, hold=5).at is None


def test_the_threshold_itself_counts():
    assert first_crossing(curve([0.79, 0.8]), 0.8).at == 2


def test_never_reached_is_censored_at_the_last_observation():
    found = first_crossing(curve([0.1, 0.2, 0.3]), 0.8)
    assert (found.at, found.last, found.reached) == (None, 3, False)


def test_sparse_observations_leave_the_crossing_between_two_of_them():
    found = first_crossing(pd.Series([0.1, 0.5, 0.9], index=[0, 10, 20]), 0.8)
    assert (found.after, found.at) == (10, 20)


def test_missing_steps_are_not_filled_in():
    found = first_crossing(pd.Series([0.1, 0.9], index=[1, 7]), 0.8)
    assert (found.after, found.at) == (1, 7)
    assert sustained_crossing(curve([0.9, np.nan, 0.9, 0.9]), 0.8, hold=2).at == 3


def test_nothing_observed():
    assert first_crossing(pd.Series(dtype=float), 0.8).reason == "no observations"
    assert stable_crossing(pd.Series(dtype=float), 0.8).at is None


def test_stable_crossing_is_the_trailing_mean_held_through_the_horizon():
    # 0 for 20 steps, then 1: the trailing mean of 10 reaches 0.5 at the fifth of them, step 25
    values = curve([0.0] * 20 + [1.0] * 40)
    assert stable_crossing(values, 0.5).at == 25
    assert stable_crossing(values, 1.0).at == 30
    assert first_crossing(values, 0.5).at == 21


def test_stable_crossing_passes_over_a_spike_of_the_mean():
    values = [0.0] * 10 + [1.0] * 10 + [0.0] * 20 + [1.0] * 40
    assert stable_crossing(curve(values), 0.9).at == 49


def test_stable_crossing_needs_the_steps_after_it():
    values = [1.0] * 10
    assert stable_crossing(curve(values + [1.0] * 19), 0.9).at is None
    assert stable_crossing(curve(values + [1.0] * 20), 0.9).at == 10


def test_stable_crossing_does_not_bridge_a_gap():
    values = curve([1.0] * 60)
    assert stable_crossing(values, 0.9).at == 10
    assert stable_crossing(values.drop(25), 0.9).at == 35
    assert stable_crossing(values.drop([5, 35]), 0.9).at is None  # no ten whole steps with twenty behind them


def test_stable_crossing_equals_the_definition():
    rng = np.random.default_rng(7)
    values = np.clip(np.linspace(0, 1.2, 120) + rng.normal(0, 0.1, 120), 0, 1)
    for level in (0.3, 0.5, 0.8, 0.95):
        expected = None
        for t in range(10, 101):
            means = [values[s - 10 : s].mean() for s in range(t, t + 21)]
            if min(means) >= level:
                expected = t
                break
        assert stable_crossing(curve(values), level).at == expected


def test_median_curve_leaves_out_steps_that_a_run_lacks():
    found = median_curve({"a": curve([1, 2, 3]), "b": curve([3, 4]), "c": curve([5, 9, 9])})
    assert found.to_dict() == {1: 3, 2: 4}


def test_in_responses_counts_filtered_responses():
    found = in_responses(curve([0.1, 0.9]), curve([300, 900]))
    assert first_crossing(found, 0.8).at == 900


def test_wrong_hold():
    with pytest.raises(ValueError, match="at least 1"):
        sustained_crossing(curve([1.0]), 0.8, hold=0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60), st.floats(0.05, 0.95), st.integers(2, 5))
def test_order_of_rows_and_of_rules(values, level, hold):
    ordered = curve(values)
    shuffled = ordered.sample(frac=1, random_state=1)
    first = first_crossing(ordered, level)
    assert first == first_crossing(shuffled, level)
    held = sustained_crossing(ordered, level, hold=hold)
    assert held.at is None or (first.at is not None and first.at <= held.at)

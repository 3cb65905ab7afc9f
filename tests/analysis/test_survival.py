"""Kaplan-Meier, restricted means and log-rank against hand calculations and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from harness.analysis.intervals import mean_over_seeds
from harness.analysis.survival import kaplan_meier, logrank, survival
from harness.analysis.thresholds import Crossing


def reached(*steps):
    return [Crossing(float(s), s - 1.0, 100.0, "") for s in steps]


def never(*lasts):
    return [Crossing(None, float(s), float(s), "") for s in lasts]


def test_without_censoring_it_is_the_sample():
    found = survival(reached(18, 19, 75, 16, 65))
    assert (found.n, found.reached, found.median) == (5, 5, 19)
    assert found.restricted_mean.estimate == pytest.approx(np.mean([18, 19, 75, 16, 65]))
    plain = mean_over_seeds([18, 19, 75, 16, 65])
    assert found.restricted_mean.low == pytest.approx(plain.low)
    assert str(found) == "reached 5/5"


def test_an_even_number_of_runs_has_the_median_between_two():
    assert survival(reached(10, 20, 30, 40)).median == 25


def test_censored_by_hand():
    # Kaplan-Meier of 2, 4+, 6, 8+: S = 3/4 from 2, 3/4 * 1/2 = 3/8 from 6
    found = survival(reached(2, 6) + never(4, 8), tau=8)
    assert (found.reached, found.median) == (2, 6)
    assert found.restricted_mean.estimate == pytest.approx(2 + 4 * 0.75 + 2 * 0.375)


def test_a_method_that_never_reaches():
    found = survival(never(100, 100, 100))
    assert (found.reached, found.median, found.restricted_mean.estimate) == (0, math.inf, 100)
    assert found.median_high == math.inf


def test_half_reached_is_not_a_median_of_the_reached():
    found = survival(reached(10, 12) + never(100, 100, 100))
    assert found.median == math.inf


def test_observed_every_ten_steps():
    events = [Crossing(20.0, 10.0, 100.0, ""), Crossing(30.0, 20.0, 100.0, ""), Crossing(30.0, 20.0, 100.0, "")]
    found = survival(events)
    assert (found.median_from, found.median) == (21, 30)


def test_no_runs_and_one_run():
    assert survival([]).n == 0
    one = survival(reached(7))
    assert one.median == 7
    assert not one.restricted_mean.known


@given(st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=12))
def test_survival_function_is_scipys(rows):
    times = np.array([time for time, _ in rows], float)
    events = np.array([event for _, event in rows], bool)
    if not events.any():
        return
    ours, survivors, _ = kaplan_meier(times, events)
    theirs = stats.ecdf(stats.CensoredData(uncensored=times[events], right=times[~events])).sf
    assert np.allclose(theirs.evaluate(ours), survivors)


def test_logrank_statistic_and_exact_p():
    first, second = reached(14, 15, 13, 13, 16), reached(60, 90) + never(100, 100, 100)
    found = logrank(first, second, ("k",))
    a = stats.CensoredData(uncensored=[14, 15, 13, 13, 16])
    b = stats.CensoredData(uncensored=[60, 90], right=[100, 100, 100])
    assert np.sign(found.statistic) > 0
    assert stats.logrank(a, b).pvalue < 0.01
    assert found.p == pytest.approx(2 / math.comb(10, 5))
    assert found.p_earlier == pytest.approx(1 / math.comb(10, 5))
    assert found.p_later == 1
    assert found.smallest_p == pytest.approx(2 / 252)


def test_logrank_of_equal_groups_says_nothing():
    assert logrank(reached(5, 5), reached(5, 5), ("k",)).p == 1
    assert math.isnan(logrank([], reached(5), ("k",)).p)


def test_median_interval_contains_the_median_in_simulation():
    rng = np.random.default_rng(3)
    true = math.log(2) * 20
    hits = []
    for _ in range(400):
        times = np.ceil(rng.exponential(20, 30) * 50) / 50
        found = survival([Crossing(float(t), float(t), 1e9, "") for t in times])
        hits.append(found.median_low <= true <= found.median_high)
    assert np.mean(hits) >= 0.92

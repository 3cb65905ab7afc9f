"""Permutation tests, effect sizes, power and whole comparisons."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from analysis_results import build_results
from scipy import stats

from harness.analysis import effects
from harness.analysis.compare import compare, compare_all
from harness.analysis.permutation import exchange_test, holm, sign_flip_test, trend_test


def test_sign_flips_by_hand():
    found = sign_flip_test(np.array([1.0, 2.0, 3.0, 4.0, 5.0]), ("k",))
    assert (found.p, found.smallest_p, found.permutations) == (2 / 32, 2 / 32, 32)
    assert (found.p_greater, found.p_less) == (1 / 32, 1.0)
    # sums of {1, 2, -3} under flips: only the eight signs; |sum| >= 0 always
    assert sign_flip_test(np.array([1.0, 2.0, -3.0]), ("k",)).p == 1


def test_differences_of_zero_cannot_be_flipped():
    found = sign_flip_test(np.array([0.0, 0.0, 1.0]), ("k",))
    assert found.smallest_p == 1
    assert found.p == 1


def test_exchange_by_hand_and_against_enumeration():
    found = exchange_test(np.array([1.0, 2.0]), np.array([3.0, 4.0]), ("k",))
    assert (found.p, found.smallest_p) == (2 / 6, 2 / 6)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=4), rng.normal(1, 1, 5)
    pooled = np.concatenate([x, y])
    draws = []
    for pick in itertools.combinations(range(9), 4):
        inside = np.isin(np.arange(9), pick)
        draws.append(pooled[inside].mean() - pooled[~inside].mean())
    expected = np.mean(np.abs(draws) >= abs(x.mean() - y.mean()) - 1e-12)
    assert exchange_test(x, y, ("k",)).p == pytest.approx(expected)


def test_large_groups_are_drawn_and_reproducible():
    x, y = np.arange(20.0), np.arange(20.0) + 12
    first, second = exchange_test(x, y, ("k",)), exchange_test(x, y, ("k",))
    assert first == second
    assert not first.exact
    assert first.p < 0.01


def test_trend_by_hand():
    found = trend_test(np.array([1.0, 2.0, 3.0, 4.0]), np.array([4.0, 8.0, 16.0, 32.0]), ("k",))
    assert found.p_greater == 1 / 24
    assert found.p == 2 / 24
    assert math.isnan(trend_test(np.array([1.0, 2.0]), np.array([4.0, 4.0]), ("k",)).p)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    adjusted = holm([0.01, math.nan, 0.5])
    assert adjusted[0] == pytest.approx(0.02)
    assert math.isnan(adjusted[1])


def test_type_one_error_of_the_exact_tests():
    rng = np.random.default_rng(1)
    p = [exchange_test(rng.normal(size=5), rng.normal(size=5), ("k",)).p for _ in range(400)]
    assert np.mean(np.array(p) <= 0.05) <= 0.075


def test_welch_and_hedges_against_scipy():
    rng = np.random.default_rng(2)
    x, y = rng.normal(1, 1, 6), rng.normal(0, 2, 9)
    theirs = stats.ttest_ind(x, y, equal_var=False).confidence_interval()
    ours = effects.difference_of_means(x, y)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
    g = effects.standardised(x, y)
    assert g.low < g.estimate < g.high
    # the interval inverts the noncentral t: at its ends the observed t is the 97.5 % and 2.5 % quantile
    pooled = math.sqrt((5 * x.var(ddof=1) + 8 * y.var(ddof=1)) / 13)
    correction = g.estimate / ((x.mean() - y.mean()) / pooled)
    scale = math.sqrt(6 * 9 / 15)
    t = (x.mean() - y.mean()) / pooled * scale
    assert stats.nct.cdf(t, 13, g.low / correction * scale) == pytest.approx(0.975)
    assert stats.nct.cdf(t, 13, g.high / correction * scale) == pytest.approx(0.025)


@pytest.mark.parametrize("gap", [3.0, 40.0, 137.0, 1e4])
def test_the_interval_of_a_huge_effect_is_found_whatever_its_sign(gap):
    spread = np.array([-1.0, 0.0, 1.0])
    above = effects.standardised(spread + gap, spread)
    below = effects.standardised(spread, spread + gap)
    assert below.estimate == pytest.approx(-above.estimate)
    assert (below.low, below.high) == pytest.approx((-above.high, -above.low), nan_ok=True)
    assert gap > 200 or above.low < above.estimate < above.high


def test_seeds_needed_gives_the_power():
    assert effects.seeds_needed(1.0, paired=False) == 17  # the textbook value for d = 1
    assert effects.seeds_needed(0.5, paired=True) == 34
    assert effects.seeds_needed(0.0, paired=True) is None
    rng = np.random.default_rng(4)
    rejected = stats.ttest_ind(rng.normal(1, 1, (2000, 17)), rng.normal(0, 1, (2000, 17)), axis=1).pvalue < 0.05
    assert 0.77 <= np.mean(rejected) <= 0.84


def results_of(values, **more):
    """Method -> final reward by seed."""
    curves = {(m, seed): {"reward/format": [v] * 5} for m, by_seed in values.items() for seed, v in by_seed.items()}
    return build_results(curves, **more)


def test_equal_seeds_are_paired_others_are_not():
    results = results_of({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 0.5, 1: 1.0, 2: 1.5}, "c": {0: 0.1, 1: 0.2}})
    paired = compare(results, results.runs(), "reward/format", "a", "b")
    assert paired.paired
    assert paired.difference.estimate == pytest.approx(1.0)
    assert paired.p == 0.25
    unpaired = compare(results, results.runs(), "reward/format", "a", "c")
    assert not unpaired.paired
    assert (unpaired.n, unpaired.against_n) == (3, 2)


def test_another_method_and_row_order_change_nothing():
    small = results_of({"a": {0: 1.0, 1: 2.0, 2: 3.0}, "b": {0: 0.5, 1: 1.0, 2: 1.5}})
    large = results_of({"z": {0: 9.0}, "b": {2: 1.5, 0: 0.5, 1: 1.0}, "a": {1: 2.0, 2: 3.0, 0: 1.0}})
    wanted = compare(small, small.runs(), "reward/format", "a", "b")
    shuffled = large.runs().sample(frac=1, random_state=0)
    assert compare(large, shuffled, "reward/format", "a", "b") == wanted


def test_all_equal_and_single_runs_have_no_interval():
    results = results_of({"a": {0: 0.5, 1: 0.5, 2: 0.5}, "b": {0: 0.5, 1: 0.5, 2: 0.5}, "c": {0: 1.0}})
    equal = compare(results, results.runs(), "reward/format", "a", "b")
    assert (equal.difference.estimate, equal.p, equal.seeds_needed) == (0, 1, None)
    assert not equal.difference.known
    single = compare(results, results.runs(), "reward/format", "c", "c")
    assert single.n == 1
    assert not single.difference.known


def test_a_method_that_never_reaches_is_compared_by_logrank():
    curves = {("a", s): {"reward/format": [0.1] * (10 + s) + [0.9] * (20 - s)} for s in range(5)}
    curves |= {("b", s): {"reward/format": [0.1] * 30} for s in range(5)}
    results = build_results(curves)
    found = compare(results, results.runs(), "first_step/reward/format@0.8", "a", "b")
    assert "log-rank" in found.test
    assert found.p == pytest.approx(2 / 252)
    assert found.against_estimate == 30
    assert "reached 5/5 against 0/5" in found.note


def test_a_run_that_ended_early_is_named_and_not_averaged():
    results = build_results(
        {("a", 0): {"reward/format": [0.5] * 10}, ("b", 0): {"reward/format": [0.9] * 4}}, steps=10, state="failed"
    )
    found = compare(results, results.runs(), "reward/format", "a", "b")
    assert found.against_n == 0
    assert found.without == ("b-0: failed: ended at step 4 of 10",)


def test_holm_is_over_the_whole_table():
    results = results_of(
        {"a": {s: 1.0 + s for s in range(6)}, "b": dict.fromkeys(range(6), 0.0), "c": dict.fromkeys(range(6), 1.1)}
    )
    found = compare_all(results, results.runs(), ["reward/format"], "a", ["b", "c"])
    assert [item.holm_p for item in found] == holm([item.p for item in found])


def test_settings_are_never_mixed():
    results = results_of({"a": {0: 1.0}, "b": {0: 0.0}})
    index = results.index.copy()
    index.loc[index["method"] == "b", "setting_id"] = "another"
    assert compare_all(results, index, ["reward/format"], "a", ["b"]) == []

"""Intervals: by hand, by simulation of their coverage, and what they must not depend on."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.analysis.intervals import (
    _law_on_a_grid,
    curve_band,
    mean_over_questions,
    mean_over_seeds,
    mean_over_seeds_and_questions,
    paired_over_questions,
    resampled_means,
)
from harness.analysis.seeding import generator_for


def test_student_t_by_hand():
    found = mean_over_seeds([1.0, 2.0, 3.0])
    half = 4.302652729911275 / math.sqrt(3)
    assert found.estimate == 2
    assert found.low == pytest.approx(2 - half)
    assert found.high == pytest.approx(2 + half)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0]])
def test_points_only_below_three(values):
    found = mean_over_seeds(values)
    assert not found.known
    assert found.n == len(values)
    assert found.note


def test_all_equal():
    assert mean_over_seeds([0.5] * 5).note == "all values are equal"
    found = mean_over_questions([0.5] * 50, ("cell",))
    assert (found.low, found.high) == (0.5, 0.5)
    assert "same value" in found.note


def test_missing_values_are_an_error_not_dropped():
    with pytest.raises(ValueError, match="missing"):
        mean_over_seeds([1.0, math.nan, 2.0])


def test_t_coverage_at_five_seeds():
    rng = np.random.default_rng(0)
    hits = [mean_over_seeds(sample).contains(0.0) for sample in rng.normal(size=(3000, 5))]
    assert 0.93 <= np.mean(hits) <= 0.97


@pytest.mark.parametrize("questions", [83, 500])
def test_question_bootstrap_coverage(questions):
    """Questions of very different difficulty, 16 samples each."""
    rng = np.random.default_rng(questions)
    hits = []
    for repeat in range(1000):
        values = rng.binomial(16, rng.beta(0.6, 0.4, questions)) / 16
        hits.append(mean_over_questions(values, ("coverage", repeat), resamples=500).contains(0.6))
    assert 0.92 <= np.mean(hits) <= 0.97


def test_paired_bootstrap_coverage_and_gain():
    rng = np.random.default_rng(5)
    gain = stats.beta(0.6, 0.4).expect(lambda p: np.minimum(p + 0.02, 1) - p)
    hits, widths = [], []
    for repeat in range(500):
        skill = rng.beta(0.6, 0.4, 300)
        first, second = rng.binomial(16, skill) / 16, rng.binomial(16, np.minimum(skill + 0.02, 1)) / 16
        found = paired_over_questions(second, first, ("paired", repeat), resamples=500)
        hits.append(found.contains(gain))
        alone = mean_over_questions(first, ("alone", repeat), resamples=500)
        widths.append((found.high - found.low) / (alone.high - alone.low))
    assert 0.92 <= np.mean(hits) <= 0.98
    assert np.mean(widths) < 0.5


def test_three_ways_of_resampling_have_the_same_law():
    """Values on a grid are drawn from their law, few distinct ones through the multinomial, others through indices."""
    rng = np.random.default_rng(1)
    grid = rng.binomial(16, 0.3, 400) / 16
    few = np.where(grid == grid[0], grid + 1e-5, grid)
    jitter = grid + rng.normal(0, 1e-9, 400)
    drawn = [resampled_means(values, generator_for(way), 4000) for way, values in enumerate((grid, few, jitter))]
    for other in drawn[1:]:
        assert stats.ks_2samp(drawn[0], other).pvalue > 0.001
    for means in drawn:
        assert means.std() == pytest.approx(grid.std() / 20, rel=0.05)


@pytest.mark.parametrize("values", [[0, 0, 1], [0.5, 0.25, 0.0, 0.25], [-1.0, 2.0], [1 / 3, 2 / 3, 1.0, 1.0, 0.0]])
def test_the_law_on_a_grid_is_that_of_every_resample(values):
    """All n^n resamples of a few values, against the computed law."""
    distinct, counts = np.unique(np.array(values, float), return_counts=True)
    support, cumulative = _law_on_a_grid(distinct, counts)
    every = np.array(list(itertools.product(values, repeat=len(values)))).mean(axis=1)
    for point, share in zip(support, cumulative, strict=True):
        assert share == pytest.approx(np.mean(every <= point + 1e-9), abs=1e-12)


def test_no_grid_is_found_where_there_is_none():
    counts = np.array([1, 2, 1])
    assert _law_on_a_grid(np.array([0.0, 0.3, 1.0]), counts) is None
    assert _law_on_a_grid(np.array([0.0, 1e-6, 1.0]), counts) is None
    assert _law_on_a_grid(np.array([2.0]), np.array([4])) is None
    support, cumulative = _law_on_a_grid(np.arange(17) / 16, np.full(17, 100))
    assert len(support) == 1700 * 16 + 1
    assert cumulative[-1] == pytest.approx(1, abs=1e-12)
    assert (np.diff(cumulative) >= 0).all()


def test_rows_are_drawn_whole():
    values = np.column_stack([np.arange(50) % 2, 1 - np.arange(50) % 2]).astype(float)
    means = resampled_means(values, generator_for("rows"), 200)
    assert np.allclose(means.sum(axis=1), 1)
    continuous = np.column_stack([np.arange(50.0), -np.arange(50.0)])
    means = resampled_means(continuous, generator_for("rows"), 200)
    assert np.allclose(means.sum(axis=1), 0)


def test_an_interval_depends_on_its_cell_alone():
    values = np.random.default_rng(2).binomial(16, 0.4, 200) / 16
    alone = mean_over_questions(values, ("maths", "gdpo", 50))
    mean_over_questions(values[:50], ("maths", "dara_asym", 50))
    assert mean_over_questions(values, ("maths", "gdpo", 50)) == alone
    assert mean_over_questions(values, ("maths", "grpo", 50)) != alone
    assert mean_over_questions(np.random.default_rng(3).permutation(values), ("maths", "gdpo", 50)) == alone


def test_the_key_means_the_same_in_another_process():
    code = "from harness.analysis.seeding import generator_for; print(generator_for('a', 1).integers(10**9))"
    seen = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert seen == {f"{generator_for('a', 1).integers(10**9)}\n"}
    assert generator_for("a", 1).integers(10**9) != generator_for("a", "1").integers(10**9)


def test_bca_agrees_with_scipy_and_declines_where_it_is_not_valid():
    values = np.random.default_rng(4).binomial(16, 0.05, 120) / 16
    ours = mean_over_questions(values, ("bca",), method="bca", resamples=20_000)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=20_000, rng=0).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.003)
    assert ours.high == pytest.approx(theirs.high, abs=0.003)
    assert "too small" in mean_over_questions(values[:10] + np.arange(10), ("bca",), method="bca").note
    with pytest.raises(ValueError, match="percentile or bca"):
        mean_over_questions(values, ("bca",), method="normal")


def test_two_levels_are_wider_than_questions_alone():
    rng = np.random.default_rng(6)
    values = rng.binomial(16, 0.5, (5, 300)) / 16 + rng.normal(0, 0.05, (5, 1))
    both = mean_over_seeds_and_questions(values, ("both",))
    questions = mean_over_questions(values.mean(axis=0), ("questions",))
    assert both.estimate == pytest.approx(questions.estimate)
    assert both.high - both.low > 1.5 * (questions.high - questions.low)
    assert not mean_over_seeds_and_questions(values[:2], ("both",)).known


def test_curve_band_resamples_whole_runs():
    """Runs that cross each other: per-step resampling could not keep a run's values together, whole-run does."""
    steps = range(1, 4)
    curves = {f"run{k}": pd.Series([k, k, k], index=steps, dtype=float) for k in range(5)}
    band = curve_band(curves, ("band",))
    assert band["estimate"].tolist() == [2, 2, 2]
    assert band["low"].nunique() == band["high"].nunique() == 1
    # the median of a bootstrap sample of 5 is the lowest run with probability sum_{j >= 3} C(5, j) 0.2^j 0.8^(5-j)
    lowest = sum(math.comb(5, j) * 0.2**j * 0.8 ** (5 - j) for j in (3, 4, 5))
    assert lowest > 0.025
    assert band["low"].iloc[0] == 0
    renamed = curve_band(dict(reversed(curves.items())), ("another key",))
    pd.testing.assert_frame_equal(band, renamed)


def test_curve_band_of_two_runs_has_no_band():
    curves = {name: pd.Series([1.0, 2.0], index=[1, 2]) for name in "ab"}
    assert curve_band(curves, ("k",))["low"].isna().all()

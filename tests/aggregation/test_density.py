import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.aggregation import conflicts, density_weights, expected_density


def test_expected_density_by_hand():
    # 1 - 1/16 - 1/16; 1 - 0.1^2 - 0.9^2; never or always
    assert expected_density(0.5, 4) == pytest.approx(0.875)
    assert expected_density(0.1, 2) == pytest.approx(0.18)
    assert expected_density([0.0, 1.0, 0.3], [4, 4, 1]).tolist() == [0.0, 0.0, 0.0]
    assert expected_density([[0.5], [0.1]], [2, 4]).shape == (2, 2)


def test_expected_density_of_tiny_probabilities_keeps_its_digits():
    assert float(expected_density(1e-18, 8)) == pytest.approx(8e-18, rel=1e-12)


@given(st.floats(0, 1), st.integers(1, 64))
def test_density_grows_with_the_group(p, size):
    grown = float(expected_density(p, size + 1) - expected_density(p, size))
    assert grown == pytest.approx(p**size * (1 - p) + (1 - p) ** size * p, abs=1e-12)
    assert 0 <= expected_density(p, size) <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(1, 32))
def test_pooling_prompts_overestimates_density(rates, size):
    assert expected_density(rates, size).mean() <= expected_density(np.mean(rates), size) + 1e-12


def test_expected_density_agrees_with_sampling():
    rng = np.random.default_rng(0)
    hits = (rng.random((40_000, 8)) < 0.2).sum(axis=1)
    share = ((hits > 0) & (hits < 8)).mean()
    exact = float(expected_density(0.2, 8))
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / 40_000)


@pytest.mark.parametrize(("p", "size"), [(-0.1, 4), (1.1, 4), (float("nan"), 4), (0.5, 0), (0.5, 2.5)])
def test_expected_density_rejects(p, size):
    with pytest.raises(ValueError, match="but"):
        expected_density(p, size)


def test_density_weights():
    omega, cap_hit = density_weights([1.0, 0.25, 0.01, 0.0], 5.0)
    assert omega.tolist() == [1.0, 2.0, 5.0, 1.0]
    assert cap_hit.tolist() == [False, False, True, False]
    assert density_weights([0.04, 1.0], 5.0)[1].tolist() == [False, False]  # exactly the cap: nothing was cut
    assert density_weights([0.0, 0.0], 5.0)[0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"w_max is 0\.5"):
        density_weights([1.0], 0.5)


def test_conflicts():
    # zero, and anything up to tau, is neutral
    advantages = np.array([[1.0, -1.0, 0.0], [1.0, 0.0, 2.0], [-1e-9, 1.0, 0.0], [0.0, 0.0, 0.0], [0.1, 0.2, -0.3]])
    assert conflicts(advantages).tolist() == [True, False, False, False, True]
    assert conflicts(advantages, tau=0.25).tolist() == [True, False, False, False, False]

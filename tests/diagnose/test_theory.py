"""The theory page: formulas at values that are known by hand, and every simulation within its error."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from figures import fig_theory, theory


def test_density_by_hand() -> None:
    assert theory.density_curve(np.array([0.0, 0.5, 1.0]), 4).tolist() == [0, 0.875, 0]
    # Uniform rates, G = 4: 1 - 2/5.
    assert theory.beta_density(1, 1, 4) == pytest.approx(0.6)
    assert theory.gain(np.array(0.5), 2) == pytest.approx(0.875 - 0.5 - 0.125)


def test_jensen_gap_closes_with_the_spread() -> None:
    densities = [theory.beta_density(1 / s, 1 / s, 8) for s in (0.001, 0.1, 1, 10, 1000)]
    assert densities == sorted(densities, reverse=True)
    assert densities[0] == pytest.approx(float(theory.density_curve(np.array(0.5), 8)), abs=1e-3)
    assert densities[-1] < 0.01


def test_asym_chain_by_hand() -> None:
    # A = (1, -1), w = 3: changed (3, -1), mean 1, centred (2, -2).
    assert theory.asym_energies(np.array([1.0, -1.0]), 3.0) == (2, 6, 8, 10, 18)


def test_every_check_holds() -> None:
    found = theory.checks()
    assert len(found) == 26
    for item in found:
        assert item.holds, item
        assert item.error < 0.004


def test_a_wrong_formula_would_be_seen() -> None:
    item = theory.simulated_density(0.2, 8)
    wrong = theory.Simulated(item.name, item.formula * 1.03, item.mean, item.error, item.draws)
    assert item.holds
    assert not wrong.holds


def test_simulation_does_not_depend_on_order() -> None:
    first = theory.simulated_density(0.3, 4)
    theory.energy_pairs(3)
    assert theory.simulated_density(0.3, 4) == first


def test_the_page_states_what_was_measured(repository: Path) -> None:
    text = (repository / "docs" / "theory.md").read_text(encoding="utf-8")
    offsets = [abs(item.mean - item.formula) / item.error for item in theory.checks() if item.error > 0]
    stated = re.search(r"with\s+(\d+) means, the worst is ([\d.]+) standard errors off", text)
    assert stated
    assert int(stated[1]) == len(offsets)
    assert float(stated[2]) == pytest.approx(max(offsets), abs=0.05)


def test_figure_holds_every_panel() -> None:
    picture = fig_theory.build()
    assert set(picture.data["panel"]) == {"density", "monotone", "jensen", "energy", "asym", "checks"}
    assert picture.missing == ()

"""Why rewards starve: density against success rate and group size, Jensen's gap, energy, and the Asym bounds."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from figures import curves, theory
from figures.picture import Picture
from figures.style import RC, new_figure

SIZES = {2: "#56B4E9", 4: "#0072B2", 8: "#009E73", 16: "#CC3311"}
SPREADS = np.geomspace(0.02, 20, 60)
POINTS = {"linestyle": "none", "marker": "o", "markersize": 3}


def build() -> Picture:
    """Needs no results."""
    collector = curves.Collector()
    with mpl.rc_context(RC):
        figure, axes = new_figure(3, 2, width=3.0, height=2.4)
        _density(axes[0][0], collector)
        _monotone(axes[0][1], collector)
        _jensen(axes[0][2], collector)
        _energy(axes[1][0], collector)
        _asym(axes[1][1], collector)
        worst, count = _checks(axes[1][2], collector)
    caption = (
        "Lines: formulas; points: simulation, bars two Monte Carlo standard errors (20,000 groups each, fixed seeds). "
        "Success rates in the third panel: Beta with mean 1/2 over prompts. Energy: 60 random batches, eps = 0. "
        "Asym: 200 random sparse batches for each weight; lines are medians, the band goes from least to largest. "
        f"Last panel: all {count} simulated means against their formulas, the worst {worst:.1f} standard errors off."
    )
    return Picture("fig_theory", "Theory, checked by simulation", caption, figure, collector.table(), "Eq. 5, 34-37")


def _line(axis: Any, collector: curves.Collector, panel: str, series: str, x: Any, y: Any, **look: Any) -> None:
    axis.plot(x, y, **look)
    collector.add(panel, "", series, pd.Series(np.asarray(y), index=np.asarray(x)))


def _points(
    axis: Any, collector: curves.Collector, panel: str, series: str, x: list[float], found: list[Any], color: str
) -> None:
    means, errors = [item.mean for item in found], [item.error for item in found]
    axis.errorbar(x, means, yerr=2 * np.array(errors), color=color, elinewidth=0.8, **POINTS)
    collector.add(panel, "", f"{series} simulated", pd.Series(means, index=x))
    collector.add(panel, "", f"{series} standard error", pd.Series(errors, index=x))


def _density(axis: Any, collector: curves.Collector) -> None:
    axis.set_title("Density of a binary reward")
    rates = [0.05, 0.2, 0.5, 0.8, 0.95]
    for size, color in SIZES.items():
        x, y = theory.on_grid(lambda p, size=size: theory.density_curve(p, size))
        _line(axis, collector, "density", f"G {size}", x, y, color=color, label=f"G = {size}")
        found = [theory.simulated_density(p, size) for p in rates]
        _points(axis, collector, "density", f"G {size}", rates, found, color)
    axis.set(xlabel="success rate p", ylabel="share of active groups")
    axis.legend(fontsize=7)


def _monotone(axis: Any, collector: curves.Collector) -> None:
    axis.set_title("A larger group never loses density")
    sizes = np.arange(1, 33)
    drawn = [2, 4, 8, 16, 32]
    for p, color in zip((0.01, 0.05, 0.2, 0.5), SIZES.values(), strict=True):
        y = [float(theory.density_curve(np.array(p), int(size))) for size in sizes]
        _line(axis, collector, "monotone", f"p {p:g}", sizes, y, color=color, label=f"p = {p:g}")
        found = [theory.simulated_density(p, size) for size in drawn]
        _points(axis, collector, "monotone", f"p {p:g}", [float(size) for size in drawn], found, color)
    axis.set(xlabel="group size G", ylabel="share of active groups")
    axis.legend(fontsize=7)


def _jensen(axis: Any, collector: curves.Collector) -> None:
    axis.set_title("Unequal prompts lose density")
    drawn = [0.05, 0.25, 1.0, 4.0, 16.0]
    for size in (4, 16):
        color = SIZES[size]
        y = [theory.beta_density(1 / spread, 1 / spread, size) for spread in SPREADS]
        _line(axis, collector, "jensen", f"G {size}", SPREADS, y, color=color, label=f"G = {size}")
        alike = float(theory.density_curve(np.array(0.5), size))
        _line(axis, collector, "jensen", f"G {size} alike", SPREADS[[0, -1]], [alike] * 2, color=color, linestyle=":")
        found = [theory.simulated_jensen(spread, size) for spread in drawn]
        _points(axis, collector, "jensen", f"G {size}", drawn, found, color)
    axis.set(xlabel="spread of success rates", ylabel="share of active groups", xscale="log", ylim=(0, 1.03))
    axis.legend(fontsize=7, title="dotted: all prompts at 1/2", title_fontsize=7)


def _energy(axis: Any, collector: curves.Collector) -> None:
    axis.set_title("Energy is B x density x (G - 1)")
    pairs = theory.energy_pairs()
    axis.plot(pairs[:, 0], pairs[:, 1], color="#0072B2", **POINTS)
    collector.add("energy", "", "energy", pd.Series(pairs[:, 1], index=pairs[:, 0]))
    end = [0.0, float(pairs[:, 0].max())]
    axis.plot(end, end, color="#333333", linewidth=0.7)
    axis.set(xlabel="B x density x (G - 1)", ylabel="energy")


def _asym(axis: Any, collector: curves.Collector) -> None:
    axis.set_title("Energy after Asym, centred")
    weights = np.linspace(1, 5, 17)
    chain = theory.asym_chains(weights)
    for place, label, dashes in (
        (0, "E", ":"),
        (1, "E + 2(w-1)E+", "--"),
        (3, "E + (w\u00b2-1)E+", "-."),
        (4, "w\u00b2E", "-"),
    ):
        middle = np.median(chain[:, :, place], axis=1)
        _line(
            axis,
            collector,
            "asym",
            label,
            weights,
            middle,
            color="#333333",
            linewidth=0.9,
            linestyle=dashes,
            label=label,
        )
    measured = chain[:, :, 2]
    axis.fill_between(weights, measured.min(axis=1), measured.max(axis=1), color="#CC3311", alpha=0.2, linewidth=0)
    _line(
        axis,
        collector,
        "asym",
        "measured median",
        weights,
        np.median(measured, axis=1),
        color="#CC3311",
        label="measured",
    )
    for name, values in (("measured low", measured.min(axis=1)), ("measured high", measured.max(axis=1))):
        collector.add("asym", "", name, pd.Series(values, index=weights))
    axis.set(xlabel="weight w", ylabel="energy / E")
    axis.legend(fontsize=7)


def _checks(axis: Any, collector: curves.Collector) -> tuple[float, int]:
    axis.set_title("Simulation against formula")
    found = [item for item in theory.checks() if item.error > 0]
    offsets = [(item.mean - item.formula) / item.error for item in found]
    axis.axhspan(-2, 2, color="#dddddd", alpha=0.6, linewidth=0)
    axis.axhline(0, color="#333333", linewidth=0.7)
    axis.plot(range(len(offsets)), offsets, color="#0072B2", **POINTS)
    collector.add("checks", "", "offset in standard errors", pd.Series(offsets, index=range(len(offsets))))
    axis.set(xlabel="check", ylabel="standard errors", ylim=(-4.2, 4.2))
    return max(map(abs, offsets)), len(offsets)

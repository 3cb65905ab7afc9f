"""Density and energy of each channel over the steps, as SVG."""

from __future__ import annotations

import io
from typing import Any

from harness.diagnose.report import Diagnosis
from harness.diagnose.text import clean

COLORS = ("#0072B2", "#CC3311", "#009E73", "#E69F00", "#AA4499", "#56B4E9", "#332288", "#999933")
DASHES = ("-", "--", "-.", ":")
_RC: dict[str, Any] = {"svg.hashsalt": "dara-harness", "svg.fonttype": "path", "text.parse_math": False, "font.size": 9}


def plot(found: Diagnosis) -> str:
    """An <svg> element: one panel for the density, one for the energy; a line per channel, the same in both."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    steps = [step.step for step in found.steps]
    with mpl.rc_context(_RC):  # type: ignore[arg-type,unused-ignore]
        figure = Figure(figsize=(9, 3.4), layout="constrained")
        density, energy = figure.subplots(1, 2)
        handles = []
        for place, channel in enumerate(found.channels):
            style: dict[str, Any] = {
                "color": COLORS[place % len(COLORS)],
                "linestyle": DASHES[place // len(COLORS) % len(DASHES)],
                "linewidth": 1.4,
                "marker": "o" if len(steps) < 30 else None,
                "markersize": 3.5,
            }
            density.plot(steps, 100 * found.series(channel, lambda c: c.density), **style)
            energy.plot(steps, found.series(channel, lambda c: c.energy), **style)
            handles.append(Line2D([], [], label=_short(channel), **style))
        density.set_ylabel("density, % of groups")
        density.set_ylim(-2, 102)
        energy.set_ylabel("energy")
        energy.set_ylim(bottom=0)
        for axis in (density, energy):
            axis.set_xlabel("step")
            axis.xaxis.get_major_locator().set_params(integer=True)
            axis.grid(color="#dddddd", linewidth=0.5)
            axis.spines[["top", "right"]].set_visible(False)
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), frameon=False)
        target = io.StringIO()
        figure.savefig(target, format="svg", metadata={"Date": None, "Creator": None})
    content = target.getvalue()
    return content[content.index("<svg") :]


def _short(name: str) -> str:
    """A legend entry: a leading underscore would hide it, and a long name push the plot aside."""
    shown = clean(name)
    shown = shown if len(shown) <= 30 else shown[:29] + "\N{HORIZONTAL ELLIPSIS}"
    return "\N{ZERO WIDTH SPACE}" + shown if shown.startswith("_") else shown

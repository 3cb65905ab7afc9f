"""The diagnosis in words: what an engineer should look at, with the numbers that say so."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from harness.diagnose.report import Diagnosis

SPARSE = 0.1
"""A channel active in fewer groups than this is called sparse."""
SATURATED = 0.8
"""Share of groups at one end from which a channel has nothing left to tell."""
JENSEN = 0.15
CONFLICT = 0.1
DOMINANT = 0.8
AMPLIFIED = 1.1
FLIPPED = 0.05
TREND = 0.5


def findings(found: Diagnosis) -> list[str]:
    """Sentences, the most telling first; one that says so where nothing stands out."""
    lines = [line for channel in found.channels for line in _channel(found, channel)]
    lines += [line for source in (_energy, _filter, _conflict, _replay) for line in source(found)]
    if len(found.channels) == 1:
        lines.append(
            f"{found.channels[0]} is the only reward: if it is a sum, log its parts, for a sum hides which starves"
        )
    return lines or ["nothing stands out: every channel is active, none dominates, few responses are in conflict"]


def percent(share: float) -> str:
    """``2 %``, ``0.4 %``, ``under 0.1 %``."""
    if math.isnan(share):
        return "-"
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1 %"
    return f"{value:.1f} %" if value < 1 or 99 < value < 100 else f"{value:.0f} %"


def _channel(found: Diagnosis, channel: str) -> Iterator[str]:
    density = found.by_groups(channel, lambda c: c.density)
    low, high = found.log.numbers[channel]
    if low == high:
        yield f"{channel} is {low:g} in every response: it tells nothing apart; check its reward function"
        return
    if density == 0:
        yield f"{channel} never varies within a group: no method can learn from it"
        return
    active = f"{channel} is active in {percent(density)} of groups"
    weights = found.series(channel, lambda c: c.weight)
    capped = found.series(channel, lambda c: float(c.cap_hit))
    weight = float(weights.mean())
    if capped.any():
        share = float(capped.mean())
        often = "" if share == 1 else f" in {percent(share)} of steps"
        yield f"{active}: dara_asym would weigh it {weights[capped > 0].max():.1f} (cap){often}" + (
            "" if share == 1 else f", {weight:.1f} on average"
        )
    elif weight >= AMPLIFIED:
        yield f"{active}: dara_asym would weigh it {weight:.1f}" + (" on average" if len(weights) > 1 else "")
    elif density < SPARSE:
        yield f"{active}, as few as the others: most of the batch teaches nothing"
    ends = "declared" if channel in found.declared else "seen"
    for share, word, level, advice in (
        (found.by_groups(channel, lambda c: c.all_high), "highest", high, "solved, or too easy"),
        (found.by_groups(channel, lambda c: c.all_low), "lowest", low, "out of reach, or its reward is broken"),
    ):
        if share >= SATURATED:
            level = found.limits[channel][1 if word == "highest" else 0]
            yield f"{channel} is at its {word} value {ends} ({level:g}) throughout {percent(share)} of groups: {advice}"
    alike = found.by_groups(channel, lambda c: c.alike)
    if alike - density >= JENSEN:
        success = found.by_groups(channel, lambda c: c.success)
        yield (
            f"{channel} succeeds in {percent(success)} of responses, which would make {percent(alike)} of groups "
            f"active if prompts were equally hard; {percent(density)} are: prompts are very unequal"
        )
    yield from _trend(found, channel)


def _trend(found: Diagnosis, channel: str) -> Iterator[str]:
    densities = found.series(channel, lambda c: c.density)
    part = max(len(densities) // 5, 1)
    if len(densities) < 5:
        return
    first, last = float(densities[:part].mean()), float(densities[-part:].mean())
    if first > 0 and last < TREND * first and first - last > 0.05:
        ends = f"(steps {found.steps[0].step} to {found.steps[part - 1].step} against the last {part})"
        yield f"the density of {channel} falls from {percent(first)} to {percent(last)} {ends}"


def _energy(found: Diagnosis) -> Iterator[str]:
    if len(found.channels) < 2:
        return
    energy = {name: float(found.series(name, lambda c: c.energy).sum()) for name in found.channels}
    total = sum(energy.values())
    for name, value in energy.items():
        if total and value / total >= DOMINANT:
            yield f"{name} has {percent(value / total)} of the advantage energy under gdpo: the others hardly count"


def _filter(found: Diagnosis) -> Iterator[str]:
    hidden, groups = found.total(lambda s: s.hidden), found.total(lambda s: s.groups)
    if hidden:
        some = f"{hidden:,.0f} group{'s' if hidden > 1 else ''} ({percent(hidden / groups)})"
        yield f"a filter on the sum of the rewards would drop {some} in which a channel varies"


def _conflict(found: Diagnosis) -> Iterator[str]:
    responses = found.total(lambda s: s.responses)
    share = found.total(lambda s: s.conflict * s.responses) / responses
    if share < CONFLICT:
        return
    pairs = {
        pair: sum(step.opposed[pair] * step.responses for step in found.steps) / responses
        for pair in found.steps[0].opposed
    }
    worst = max(pairs, key=lambda pair: pairs[pair])
    yield f"channels pull {percent(share)} of responses in opposite directions" + (
        f", most often {worst[0]} against {worst[1]} ({percent(pairs[worst])})" if len(pairs) > 1 else ""
    )


def _replay(found: Diagnosis) -> Iterator[str]:
    run = [item for item in found.replays if not item.skipped and item.responses]
    flips = [item for item in run if item.flipped / item.responses >= FLIPPED]
    if flips:
        worst = max(flips, key=lambda item: item.flipped)
        yield (
            f"the choice of method matters here: {worst.method.name} turns the sign of "
            f"{percent(worst.flipped / worst.responses)} of responses against gdpo"
        )
    logged = [(item.with_logged.correlation, item.method.name) for item in run]
    known = [pair for pair in logged if not np.isnan(pair[0])]
    if known:
        best = max(known)
        same = [name for value, name in known if value > best[0] - 1e-4]
        if best[0] > 0.999:
            yield f"the advantages in the log are those of {' or '.join(same)} (correlation {best[0]:.4f})"
        else:
            yield f"the advantages in the log are closest to {' or '.join(same)} (correlation {best[0]:.3f})"

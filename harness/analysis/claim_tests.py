"""The named tests of claims.yaml.

less, greater    ``method`` below (above) each of ``against``: one-sided exact permutation or log-rank test
not_below        ``method`` not below ``against`` by more than ``margin``: one-sided interval of the difference
ordered          ``order`` of methods: medians in that order, and a Jonckheere-Terpstra trend
best             ``method`` beats each of ``among`` (all of the tests, so no correction is needed)
wider            ``method`` spreads more over seeds: exchange test on distances from the own median
trend            ``quantity`` rises or falls with the group size: Jonckheere-Terpstra
values           each method's median or mean is the stated value, within the tolerance
alike            the methods' values agree within the tolerance
largest_drop     from ``where`` to ``then`` the quantity falls most for ``method``

A claim holds when its test rejects the opposite at alpha, fails when the data reject the claim itself at alpha, and is
insufficient otherwise, whatever the direction of the point estimates. ``values`` and ``alike`` on the published record
are read off, not tested: the claim is about that very record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from harness.analysis import effects
from harness.analysis.claims import Claim
from harness.analysis.compare import Comparison, compare
from harness.analysis.distributions import t_probability, t_quantile
from harness.analysis.intervals import Interval
from harness.analysis.permutation import exchange_test, trend_test
from harness.analysis.results import Results
from harness.analysis.samples import Sample, sample

SHARES: Final = ("bfcl_v4:", "maths:")
"""Benchmarks whose quantities are shares."""


@dataclass(frozen=True)
class Evidence:
    """What a claim is judged on: ``runs`` of one setting, published ``summaries`` (empty for ours), ``then``: runs and
    summaries of the second condition, for ``largest_drop``."""

    results: Results
    runs: pd.DataFrame
    summaries: pd.DataFrame
    quantity: str
    alpha: float
    tolerance: float | None
    published: bool
    key: tuple[object, ...]
    then: tuple[pd.DataFrame, pd.DataFrame] | None = None
    ours_method: str | None = None

    def of(self, method: str) -> Sample:
        return sample(self.results, self.runs, self.summaries, self.quantity, method)


@dataclass(frozen=True)
class Outcome:
    """``verdict``: holds, fails, insufficient, missing. ``agrees``: whether the point estimates point the claimed way
    (None when they cannot be compared). ``numbers``: method -> (estimate, n runs)."""

    verdict: str
    agrees: bool | None
    reason: str
    test: str
    numbers: Mapping[str, tuple[float, int]]
    run_ids: tuple[str, ...]
    p: float = math.nan
    smallest_p: float = math.nan


def judge(claim: Claim, evidence: Evidence) -> Outcome:
    return _TESTS[claim.kind](claim, evidence)


def _less(claim: Claim, evidence: Evidence) -> Outcome:
    return _directed(evidence, claim.details["method"], claim.details["against"], sign=-1)


def _greater(claim: Claim, evidence: Evidence) -> Outcome:
    return _directed(evidence, claim.details["method"], claim.details["against"], sign=1)


def _best(claim: Claim, evidence: Evidence) -> Outcome:
    sign = 1 if claim.details["sense"] == "highest" else -1
    return _directed(evidence, claim.details["method"], claim.details["among"], sign=sign)


def _directed(evidence: Evidence, method: str, others: Sequence[str], *, sign: int) -> Outcome:
    samples = {name: evidence.of(name) for name in [method, *others]}
    missing = _missing(samples)
    if missing is not None:
        return missing
    if not all(item.from_runs for item in samples.values()):
        centres = {name: item.centre("mean") for name, item in samples.items()}
        agrees = all((centres[method] - centres[name]) * sign > 0 for name in others)
        return _outcome("insufficient", agrees, "only printed summaries, without spread over runs", "none", samples)
    found = [compare(evidence.results, evidence.runs, evidence.quantity, method, name) for name in others]
    p = [item.p_greater if sign > 0 else item.p_less for item in found]
    opposite = [item.p_less if sign > 0 else item.p_greater for item in found]
    agrees = all(item.difference.estimate * sign > 0 for item in found)
    smallest = max(_smallest_one_sided(item) for item in found)
    test = f"one-sided {found[0].test}, alpha {evidence.alpha:g}"
    if max(p) > evidence.alpha >= min(opposite):
        item = found[int(np.argmin(opposite))]
        verdict, reason = "fails", f"the other way: {_difference(item, evidence.quantity)}, p = {min(opposite):.3g}"
    else:
        verdict = "holds" if max(p) <= evidence.alpha else "insufficient"
        hardest = max(range(len(found)), key=lambda place: (p[place], -sign * found[place].difference.estimate))
        item = found[hardest]
        reason = f"{_difference(item, evidence.quantity)}, p = {max(p):.3g}"
        reason += "" if verdict == "holds" else f" (smallest possible here {smallest:.3g})"
    reason += _notes(found)
    return _outcome(verdict, agrees, reason, test, samples, max(p), smallest)


def _notes(found: Sequence[Comparison]) -> str:
    """What a reader has to know about the comparisons, said once where it is the same for all."""
    notes = [item.note for item in found]
    if len(set(notes)) == 1:
        return f" ({notes[0]})" if notes[0] else ""
    return f" ({'; '.join(f'against {item.against}: {item.note}' for item in found if item.note)})"


def _difference(item: Comparison, quantity: str) -> str:
    """``mean difference to gdpo -5.8 [-8.19, -3.41]``, without an interval where there is none."""
    return f"mean difference to {item.against} {_apart(item.difference, quantity)}"


def _apart(interval: Interval, quantity: str) -> str:
    """A difference with its interval; of shares in points."""
    share = quantity.startswith(SHARES)
    texts = [
        f"{100 * value:+.2f}" if share else f"{value:+.3g}"
        for value in (interval.estimate, interval.low, interval.high)
    ]
    return texts[0] + (" points" if share else "") + (f" [{texts[1]}, {texts[2]}]" if interval.known else "")


def shown(value: float, quantity: str) -> str:
    """A number of ``quantity`` as it is read: shares of a benchmark in percent, a time that was never reached."""
    if math.isinf(value):
        return "never"
    return f"{value:.2%}" if quantity.startswith(SHARES) else f"{value:.3g}"


def _smallest_one_sided(item: Comparison) -> float:
    """Half of the two-sided one where the null distribution is symmetric."""
    symmetric = item.paired or item.n == item.against_n
    return item.smallest_p / 2 if symmetric else item.smallest_p


def _not_below(claim: Claim, evidence: Evidence) -> Outcome:
    method, margin = claim.details["method"], float(claim.details["margin"])
    samples = {name: evidence.of(name) for name in [method, *claim.details["against"]]}
    missing = _missing(samples)
    if missing is not None:
        return missing
    verdicts, reasons = [], []
    agrees = True
    for other in claim.details["against"]:
        interval = effects.difference_of_means(
            samples[method].values, samples[other].values, level=1 - 2 * evidence.alpha
        )
        agrees = agrees and interval.estimate > -margin
        if not interval.known:
            verdicts.append("insufficient")
            reasons.append(interval.note)
            continue
        verdicts.append("holds" if interval.low > -margin else "fails" if interval.high < -margin else "insufficient")
        reasons.append(f"mean difference to {other} {_apart(interval, evidence.quantity)}, level {interval.level:g}")
    margin_text = shown(margin, evidence.quantity)
    test = f"one-sided Welch interval against a margin of {margin_text}, alpha {evidence.alpha:g}"
    return _outcome(_worst(verdicts), agrees, "; ".join(reasons), test, samples)


def _ordered(claim: Claim, evidence: Evidence) -> Outcome:
    order = list(claim.details["order"])
    samples = {name: evidence.of(name) for name in order}
    missing = _missing(samples)
    if missing is not None:
        return missing
    centres = [samples[name].centre("median") for name in order]
    agrees = all(a <= b for a, b in itertools.pairwise(centres))
    numbers = np.concatenate([samples[name].ranks() for name in order])
    levels = np.concatenate([np.full(len(samples[name].ranks()), index) for index, name in enumerate(order)])
    found = trend_test(numbers, levels, evidence.key)
    medians = ", ".join(
        f"{name} {shown(centre, evidence.quantity)}" for name, centre in zip(order, centres, strict=True)
    )
    if found.p_greater <= evidence.alpha:
        verdict = "holds" if agrees else "insufficient"
        reason = f"medians {medians}; trend p = {found.p_greater:.3g}" + ("" if agrees else ", but not in this order")
    elif found.p_less <= evidence.alpha:
        verdict, reason = "fails", f"medians {medians}; the trend is the other way, p = {found.p_less:.3g}"
    else:
        verdict, reason = "insufficient", f"medians {medians}; trend p = {found.p_greater:.3g}"
    test = f"one-sided Jonckheere-Terpstra, alpha {evidence.alpha:g}"
    return _outcome(verdict, agrees, reason, test, samples, found.p_greater, found.smallest_p)


def _wider(claim: Claim, evidence: Evidence) -> Outcome:
    method, others = claim.details["method"], claim.details["against"]
    samples = {name: evidence.of(name) for name in [method, *others]}
    missing = _missing(samples)
    if missing is not None:
        return missing
    spreads = {name: _distances(item) for name, item in samples.items()}
    p, opposite = [], []
    for other in others:
        found = exchange_test(spreads[method], spreads[other], (*evidence.key, other))
        p.append(found.p_greater)
        opposite.append(found.p_less)
    means = {name: float(item.mean()) if len(item) else math.nan for name, item in spreads.items()}
    agrees = all(means[method] > means[other] for other in others)
    distances = ", ".join(f"{name} {shown(value, evidence.quantity)}" for name, value in means.items())
    reason = f"mean distance from the median: {distances}; p = {max(p):.3g}"
    verdict = "holds" if max(p) <= evidence.alpha else "fails" if min(opposite) <= evidence.alpha else "insufficient"
    test = f"one-sided exchange test of distances from the median, alpha {evidence.alpha:g}"
    return _outcome(verdict, agrees, reason, test, samples, max(p))


def _distances(item: Sample) -> np.ndarray:
    """Distances from the own median, times that were never reached taken at the last observation."""
    numbers = np.concatenate([item.values, item.censored])
    return np.abs(numbers - np.median(numbers)) if len(numbers) else numbers


def _trend(claim: Claim, evidence: Evidence) -> Outcome:
    method, rising = claim.details["method"], claim.details["direction"] == "rising"
    frames = [frame for frame in (evidence.runs, evidence.summaries) if len(frame)]
    sizes = sorted({int(size) for frame in frames for size in frame["group_size"].dropna()})
    samples = {size: _at_size(evidence, method, size) for size in sizes}
    samples = {size: item for size, item in samples.items() if not item.empty}
    named = {f"G {size}": item for size, item in samples.items()}
    if len(samples) < 2:
        return Outcome("missing", None, f"{method} at fewer than two group sizes", "none", {}, ())
    numbers = np.concatenate([item.ranks() for item in samples.values()])
    levels = np.concatenate([np.full(len(item.ranks()), size) for size, item in samples.items()])
    found = trend_test(numbers, levels, evidence.key)
    p, opposite = (found.p_greater, found.p_less) if rising else (found.p_less, found.p_greater)
    centres = [item.centre("median") for item in samples.values()]
    steps = list(itertools.pairwise(centres))
    agrees = all(a <= b for a, b in steps) if rising else all(a >= b for a, b in steps)
    medians = ", ".join(
        f"G {size} {shown(centre, evidence.quantity)}" for size, centre in zip(samples, centres, strict=True)
    )
    monotone = "" if agrees else " (not monotone)"
    reason = f"medians {medians}{monotone}; trend p = {p:.3g}"
    if not all(item.from_runs for item in samples.values()):
        reason += ", over printed medians"
    verdict = "holds" if p <= evidence.alpha else "fails" if opposite <= evidence.alpha else "insufficient"
    test = f"one-sided Jonckheere-Terpstra over group sizes, alpha {evidence.alpha:g}"
    return _outcome(verdict, agrees, reason, test, named, p, found.smallest_p)


def _at_size(evidence: Evidence, method: str, size: int) -> Sample:
    parts = [
        frame[frame["group_size"] == size] if len(frame) else frame for frame in (evidence.runs, evidence.summaries)
    ]
    return sample(evidence.results, parts[0], parts[1], evidence.quantity, method)


def _values(claim: Claim, evidence: Evidence) -> Outcome:
    statistic = claim.details["statistic"]
    tolerance = float(claim.details["tolerance"]) if evidence.published else evidence.tolerance
    stated = {
        (name if evidence.published else claim.ours_method or name): float(value)
        for name, value in claim.details["values"].items()
    }
    samples = {name: evidence.of(name) for name in stated}
    missing = _missing(samples)
    if missing is not None:
        return missing
    if tolerance is None:
        return _outcome("insufficient", None, f"no tolerance for {evidence.quantity}", "none", samples)
    centres = {name: samples[name].centre(statistic) for name in stated}
    agrees = all(abs(centres[name] - stated[name]) <= tolerance for name in stated)
    beside = ", ".join(f"{name} {shown(centres[name], evidence.quantity)} (stated {stated[name]:g})" for name in stated)
    if evidence.published:
        test = f"{statistic} of the record, tolerance {tolerance:g}"
        return _outcome("holds" if agrees else "fails", agrees, beside, test, samples)
    verdicts = [_near(samples[name], stated[name], tolerance, evidence.alpha) for name in stated]
    test = f"interval of the mean within {tolerance:g} of the stated value, alpha {evidence.alpha:g}"
    return _outcome(_worst(verdicts), agrees, beside, test, samples)


def _near(item: Sample, stated: float, tolerance: float, alpha: float) -> str:
    """Two one-sided t tests; runs that never reached leave it open."""
    if item.n < 3 or len(item.censored) or item.values.std(ddof=1) == 0:
        return "insufficient"
    half = t_quantile(item.n - 1, 1 - alpha) * item.values.std(ddof=1) / math.sqrt(item.n)
    low, high = item.values.mean() - half - stated, item.values.mean() + half - stated
    if -tolerance <= low and high <= tolerance:
        return "holds"
    return "fails" if high < -tolerance or low > tolerance else "insufficient"


def _alike(claim: Claim, evidence: Evidence) -> Outcome:
    tolerance = float(claim.details["tolerance"]) if evidence.published else evidence.tolerance
    samples = {name: evidence.of(name) for name in claim.details["methods"]}
    missing = _missing(samples)
    if missing is not None:
        return missing
    if tolerance is None:
        return _outcome("insufficient", None, f"no tolerance for {evidence.quantity}", "none", samples)
    centres = {name: item.centre("median") for name, item in samples.items()}
    agrees = max(centres.values()) - min(centres.values()) <= tolerance
    medians = ", ".join(f"{name} {shown(centre, evidence.quantity)}" for name, centre in centres.items())
    if evidence.published:
        test = f"medians of the record, tolerance {tolerance:g}"
        return _outcome("holds" if agrees else "fails", agrees, medians, test, samples)
    middle = float(np.median(list(centres.values())))
    verdicts = [_near(item, middle, tolerance, evidence.alpha) for item in samples.values()]
    test = f"intervals within {tolerance:g} of their median, alpha {evidence.alpha:g}"
    return _outcome(_worst(verdicts), agrees, medians, test, samples)


def _largest_drop(claim: Claim, evidence: Evidence) -> Outcome:
    method, others = claim.details["method"], claim.details["among"]
    if evidence.then is None:
        return Outcome("missing", None, "no runs of the second condition", "none", {}, ())
    before = {name: evidence.of(name) for name in [method, *others]}
    after = {name: sample(evidence.results, *evidence.then, evidence.quantity, name) for name in [method, *others]}
    missing = _missing(before) or _missing(after)
    if missing is not None:
        return missing
    drops = {name: before[name].centre("mean") - after[name].centre("mean") for name in before}
    agrees = all(drops[method] > drops[name] for name in others)
    reason = "drops " + ", ".join(f"{name} {shown(drop, evidence.quantity)}" for name, drop in drops.items())
    spreads = [*before.values(), *after.values()]
    if any(len(item.values) < 2 for item in spreads):
        reason += "; at least one condition has no spread over runs"
        return _outcome("insufficient", agrees, reason, "none", before)
    p = [_welch_of_drops(before[method], after[method], before[name], after[name]) for name in others]
    verdict = "holds" if max(p) <= evidence.alpha else "fails" if min(p) >= 1 - evidence.alpha else "insufficient"
    test = f"one-sided Welch t of the difference of drops, alpha {evidence.alpha:g}"
    return _outcome(verdict, agrees, f"{reason}; p = {max(p):.3g}", test, before, max(p))


def _welch_of_drops(a: Sample, b: Sample, c: Sample, d: Sample) -> float:
    """p of (a - b) > (c - d) with Satterthwaite's degrees of freedom."""
    parts = [(item.values.var(ddof=1) / len(item.values), len(item.values) - 1) for item in (a, b, c, d)]
    total = sum(part for part, _ in parts)
    gap = (a.values.mean() - b.values.mean()) - (c.values.mean() - d.values.mean())
    if total == 0:
        return math.nan
    df = total**2 / sum(part**2 / count for part, count in parts)
    return t_probability(df, -gap / math.sqrt(total))


def _missing(samples: Mapping[str, Sample]) -> Outcome | None:
    absent = [name for name, item in samples.items() if item.empty]
    if not absent:
        return None
    return Outcome("missing", None, f"no value of {', '.join(absent)}", "none", _numbers(samples), ())


def _worst(verdicts: Sequence[str]) -> str:
    for verdict in ("fails", "insufficient"):
        if verdict in verdicts:
            return verdict
    return "holds"


def _numbers(samples: Mapping[str, Sample]) -> dict[str, tuple[float, int]]:
    return {name: (item.centre("median" if item.is_time else "mean"), item.n) for name, item in samples.items()}


def _outcome(
    verdict: str,
    agrees: bool | None,
    reason: str,
    test: str,
    samples: Mapping[str, Sample],
    p: float = math.nan,
    smallest_p: float = math.nan,
) -> Outcome:
    names = tuple(name for item in samples.values() for name in item.run_ids)
    return Outcome(verdict, agrees, reason, test, _numbers(samples), names, p, smallest_p)


_TESTS: Final[dict[str, Callable[[Claim, Evidence], Outcome]]] = {
    "less": _less,
    "greater": _greater,
    "not_below": _not_below,
    "ordered": _ordered,
    "best": _best,
    "wider": _wider,
    "trend": _trend,
    "values": _values,
    "alike": _alike,
    "largest_drop": _largest_drop,
}

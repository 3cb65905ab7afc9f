"""Two methods, one quantity: difference with interval, exact p, effect size, and the seeds it would take.

Runs are paired by seed when both methods have exactly the same seeds; otherwise all runs enter unpaired. No run is left
out to make pairs. Times that some run never reached are compared by the log-rank test and by the restricted mean.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.analysis import effects
from harness.analysis.frames import grouped, records
from harness.analysis.intervals import Interval
from harness.analysis.permutation import Permutation, exchange_test, holm, sign_flip_test
from harness.analysis.quantities import Quantity, parse, values
from harness.analysis.questions import NoQuestions, difference_over_questions
from harness.analysis.results import Results
from harness.analysis.survival import logrank
from harness.analysis.thresholds import Crossing


@dataclass(frozen=True)
class Comparison:
    """``difference`` is method - against (in the quantity's unit). ``holm_p`` is set by :func:`compare_all`.

    ``without``: runs that were started and have no value, with the reason. ``seeds_needed``: for 80 % power at the
    observed effect; None when there is no effect to see or it cannot be estimated. ``p_less`` and ``p_greater`` are
    one-sided (method below, above the other; earlier, later for times), for directions stated beforehand.
    ``over_questions``: the difference over another draw of questions (and of seeds, from 3 a side on), where results
    by question were stored.
    """

    quantity: str
    setting: str
    method: str
    against: str
    estimate: float
    against_estimate: float
    difference: Interval
    effect: Interval
    p: float
    smallest_p: float
    test: str
    paired: bool
    n: int
    against_n: int
    seeds_needed: int | None
    runs: tuple[str, ...]
    against_runs: tuple[str, ...]
    without: tuple[str, ...]
    note: str = ""
    over_questions: Interval | None = None
    holm_p: float = math.nan
    p_less: float = math.nan
    p_greater: float = math.nan


def compare(results: Results, runs: pd.DataFrame, quantity: Quantity | str, method: str, against: str) -> Comparison:
    """Compare two methods over ``runs`` (rows of the index of one setting: nothing but seed and method may differ)."""
    quantity = parse(quantity) if isinstance(quantity, str) else quantity
    table = values(results, runs[runs["method"].isin([method, against])], quantity)
    first, second = (_ordered(table[table["method"] == name]) for name in (method, against))
    setting = str(runs["setting_id"].iloc[0]) if len(runs) else ""
    key = (setting, quantity.text, method, against)
    missing = tuple(f"{row.run_id}: {row.note}" for row in records(table) if pd.isna(row.value) and not row.censored)
    if quantity.is_time and (first["censored"].any() or second["censored"].any()):
        return _censored(quantity, key, first, second, missing)
    a, b = first[first["value"].notna()], second[second["value"].notna()]
    paired = _same_seeds(a, b)
    x, y = a["value"].to_numpy(float), b["value"].to_numpy(float)
    if paired:
        d = x - y
        test: Permutation = sign_flip_test(d, key)
        difference, effect = effects.paired_difference(d), effects.standardised_paired(d)
    else:
        test = exchange_test(x, y, key)
        difference, effect = effects.difference_of_means(x, y), effects.standardised(x, y)
    by_question, without_questions = _over_questions(results, runs, quantity, a, b, key, paired)
    name = ("sign flips of paired differences" if paired else "exchange of labels") + _how(test.exact)
    return Comparison(
        quantity=quantity.text,
        setting=setting,
        method=method,
        against=against,
        estimate=float(x.mean()) if len(x) else math.nan,
        against_estimate=float(y.mean()) if len(y) else math.nan,
        difference=difference,
        effect=effect,
        p=test.p,
        smallest_p=test.smallest_p,
        test=name,
        paired=paired,
        n=len(x),
        against_n=len(y),
        seeds_needed=effects.seeds_needed(effect.estimate, paired=paired),
        runs=tuple(a["run_id"]),
        against_runs=tuple(b["run_id"]),
        without=missing,
        note="; ".join(part for part in (difference.note, without_questions) if part),
        over_questions=by_question,
        p_less=test.p_less,
        p_greater=test.p_greater,
    )


def _over_questions(
    results: Results,
    runs: pd.DataFrame,
    quantity: Quantity,
    first: pd.DataFrame,
    second: pd.DataFrame,
    key: tuple[object, ...],
    paired: bool,
) -> tuple[Interval | None, str]:
    """(the interval, why there is none although results by question were stored)."""
    if quantity.kind != "evaluation" or first.empty or second.empty:
        return None, ""
    steps = [_evaluated(runs, table, quantity) for table in (first, second)]
    asked = [(name, at) for part in steps for name, at in part.items()]
    if not any(results.questions_of(name, quantity.benchmark, at) is not None for name, at in asked):
        return None, ""
    try:
        return difference_over_questions(results, steps[0], steps[1], quantity, key, paired=paired), ""
    except NoQuestions as error:
        return None, f"no interval over questions: {error}"


def _evaluated(runs: pd.DataFrame, table: pd.DataFrame, quantity: Quantity) -> dict[str, int]:
    """Run id -> the step that its value is of; -1 where that is not known."""
    if quantity.at is not None:
        return dict.fromkeys(table["run_id"], int(quantity.at))
    ends = runs.set_index("run_id")["steps"]
    return {name: -1 if pd.isna(ends[name]) else int(ends[name]) for name in table["run_id"]}


def _censored(
    quantity: Quantity, key: tuple[object, ...], first: pd.DataFrame, second: pd.DataFrame, missing: tuple[str, ...]
) -> Comparison:
    """Restricted means up to a common tau, with the log-rank permutation test."""
    a, b = (part[part["value"].notna() | part["censored"]] for part in (first, second))
    both = [_as_crossings(a), _as_crossings(b)]
    ends = [crossing.last for part in both for crossing in part if crossing.at is None]
    tau = min(ends)
    x, y = (np.array([min(c.last if c.at is None else c.at, tau) for c in part], float) for part in both)
    test = logrank(both[0], both[1], key)
    difference = effects.difference_of_means(x, y)
    effect = effects.standardised(x, y)
    reached = [sum(c.reached for c in part) for part in both]
    return Comparison(
        quantity=quantity.text,
        setting=str(key[0]),
        method=str(key[2]),
        against=str(key[3]),
        estimate=float(x.mean()) if len(x) else math.nan,
        against_estimate=float(y.mean()) if len(y) else math.nan,
        difference=dataclasses.replace(difference, method=f"restricted mean to {tau:g}, {difference.method}"),
        effect=effect,
        p=test.p,
        smallest_p=test.smallest_p,
        test="log-rank" + _how(test.exact),
        paired=False,
        n=len(x),
        against_n=len(y),
        seeds_needed=effects.seeds_needed(effect.estimate, paired=False),
        runs=tuple(a["run_id"]),
        against_runs=tuple(b["run_id"]),
        without=missing,
        note=f"reached {reached[0]}/{len(x)} against {reached[1]}/{len(y)}; means restricted to {tau:g}",
        p_less=test.p_earlier,
        p_greater=test.p_later,
    )


def compare_all(
    results: Results, runs: pd.DataFrame, quantities: Sequence[str], method: str, against: Sequence[str]
) -> list[Comparison]:
    """All quantities x ``against`` in every setting that has both methods; Holm over this whole table."""
    found = []
    for _, part in grouped(runs, "setting_id", sort=True):
        present = set(part["method"])
        found += [
            compare(results, part, quantity, method, other)
            for quantity in quantities
            for other in against
            if method in present and other in present
        ]
    adjusted = holm([comparison.p for comparison in found])
    return [dataclasses.replace(item, holm_p=p) for item, p in zip(found, adjusted, strict=True)]


def _ordered(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(["seed", "run_id"], kind="stable")


def _same_seeds(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    if a["seed"].isna().any() or b["seed"].isna().any() or a["seed"].duplicated().any():
        return False
    return len(a) > 0 and list(a["seed"]) == list(b["seed"])


def _as_crossings(table: pd.DataFrame) -> list[Crossing]:
    return [
        Crossing(None if pd.isna(row.value) else float(row.value), float(row.after), float(row.last), str(row.note))
        for row in records(table)
    ]


def _how(exact: bool) -> str:
    return ", exact" if exact else ", 20,000 draws"

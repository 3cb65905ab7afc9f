"""Results by question: which questions make up a metric and with which weight, and two methods on the same questions.

A metric of an evaluation is a weighted mean over parts (benchmarks of one evaluation, categories of BFCL) of the mean
over the questions of a part. Resampling draws questions within their part, so each part keeps its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from harness.analysis.intervals import LEVEL, RESAMPLES, Interval, resampled_means
from harness.analysis.quantities import Quantity
from harness.analysis.results import Results
from harness.analysis.seeding import generator_for
from harness.evaluation.bfcl.categories import CASES, groups

AGREES = 1e-9
"""A metric that the questions give up to this is the stored one."""
BFCL = "bfcl_v4"


class NoQuestions(Exception):
    """Why there are no results by question for a quantity; in words."""


def part_weights(benchmark: str, metric: str, parts: Iterable[str]) -> tuple[str, dict[str, float]]:
    """(column of the per-question results, weight of each part in the metric; 0 weights left out).

    ``accuracy`` of maths is the unweighted mean of its benchmarks, ``accuracy/math500`` is one of them alone, and
    ``accuracy/live`` of BFCL weighs categories as its definition says. Raises :class:`NoQuestions`.
    """
    known = list(dict.fromkeys(parts))
    column, _, group = metric.rpartition("/")
    if column and group in known:
        return column, {group: 1.0}
    if column and benchmark == BFCL and group in ("live", "non_live", "multi_turn", "average"):
        weights = {part: groups({name: float(name == part) for name in CASES})[group] or 0.0 for part in CASES}
        used = {part: weight for part, weight in weights.items() if weight}
        if not set(used) <= set(known):
            raise NoQuestions(f"no results by question for {', '.join(sorted(set(used) - set(known)))}")
        return column, used
    return metric, dict.fromkeys(known, 1 / len(known))


def question_values(results: Results, run_id: str, quantity: Quantity, step: int) -> tuple[pd.Series, dict[str, float]]:
    """(value of each question, indexed by part and question; weights of the parts) of one run's evaluation.

    Raises :class:`NoQuestions`, also when they do not give the metric that was stored with them.
    """
    table = results.questions_of(run_id, quantity.benchmark, step)
    if table is None:
        raise NoQuestions("no results by question were stored")
    column, weights = part_weights(quantity.benchmark, quantity.name, table["part"])
    chosen = table[(table["metric"] == column) & table["part"].isin(weights)]
    if chosen.empty:
        raise NoQuestions(f"no {column} by question was stored")
    series = chosen.set_index(["part", "question"])["value"].sort_index()
    means = series.groupby(level="part").mean()
    stored = results.evaluation(run_id, quantity.benchmark, quantity.name)
    if stored is not None and abs(sum(means[part] * w for part, w in weights.items()) - stored[step]) > AGREES:
        raise NoQuestions(f"the results by question of {run_id} do not give its {quantity.text}")
    return series, weights


def difference_over_questions(
    results: Results,
    first: Mapping[str, int],
    second: Mapping[str, int],
    quantity: Quantity,
    key: tuple[object, ...],
    *,
    paired: bool,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Interval:
    """Interval of the difference of two methods' means, over the questions that all their runs answered.

    first, second: run id -> step evaluated; ``paired``: in the same order of seeds. A resample draws questions within
    their part, the same for every run, and, from 3 runs a side on, runs (pairs of runs); fewer are held fixed. All
    samples of a question stay together. Percentile bootstrap; the note says what was held fixed and what was lost.
    Raises :class:`NoQuestions`.
    """
    columns: list[pd.Series] = []
    weights: dict[str, float] = {}
    for run_id, step in [*first.items(), *second.items()]:
        series, weights = question_values(results, run_id, quantity, step)
        columns.append(series)
    if not first or not second:
        raise NoQuestions("no runs")
    table = pd.concat(columns, axis=1, join="inner")
    asked = len(columns[0].index.union(columns[-1].index))
    if set(table.index.get_level_values("part")) != set(weights):
        raise NoQuestions("the runs share no questions")
    values = table.to_numpy(float)
    n_first = len(first)
    if paired:
        values = values[:, :n_first] - values[:, n_first:]
    parts = table.index.get_level_values("part")
    rng = generator_for("questions of runs", *key)
    by_run = np.zeros((resamples, values.shape[1]))
    means = np.zeros(values.shape[1])
    for part, weight in sorted(weights.items()):
        rows = values[np.asarray(parts == part)]
        by_run += weight * resampled_means(rows, rng, resamples)
        means += weight * rows.mean(axis=0)
    notes = [f"{asked - len(table)} questions are not shared"] if asked > len(table) else []
    sides = [slice(None)] if paired else [slice(None, n_first), slice(n_first, None)]
    draws, estimate = np.zeros(resamples), 0.0
    for sign, side in zip((1.0, -1.0), sides, strict=False):
        draws += sign * (by_run[:, side] * _run_weights(means[side], rng, resamples, notes)).sum(axis=1)
        estimate += sign * float(means[side].mean())
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), len(table), level, _name(paired, len(weights)), "; ".join(notes))


def _run_weights(
    runs: Sequence[float] | np.ndarray, rng: np.random.Generator, resamples: int, notes: list[str]
) -> np.ndarray:
    """How often each run is drawn, over the number of runs [resamples, runs]."""
    n = len(runs)
    if n < 3:
        text = "it says nothing about other seeds" if n == 1 else "its two runs are held fixed"
        notes.extend([] if text in notes else [text])
        return np.full((1, n), 1 / n)
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples) / n


def _name(paired: bool, parts: int) -> str:
    within = " within each part" if parts > 1 else ""
    return f"bootstrap of questions{within}" + (", paired" if paired else ", the same for both methods")

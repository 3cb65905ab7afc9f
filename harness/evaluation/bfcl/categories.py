"""The 14 categories, and how their values become one: the paper's aggregation and the official one.

Paper (arXiv 2610.00574): Non-Live is the unweighted mean of simple (itself the mean of three languages), multiple,
parallel and parallel_multiple; Live is weighted by cases; Multi-Turn is the unweighted mean of four; Average is the
mean of the three. A group with a category that was not run is missing (None), and so is the average. Relevance and
irrelevance belong to none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CASES: dict[str, int] = {
    "simple_python": 400,
    "simple_java": 100,
    "simple_javascript": 50,
    "multiple": 200,
    "parallel": 200,
    "parallel_multiple": 200,
    "live_simple": 258,
    "live_multiple": 1053,
    "live_parallel": 16,
    "live_parallel_multiple": 24,
    "multi_turn_base": 200,
    "multi_turn_miss_func": 200,
    "multi_turn_miss_param": 200,
    "multi_turn_long_context": 200,
}
SIMPLE = ("simple_python", "simple_java", "simple_javascript")
LIVE = ("live_simple", "live_multiple", "live_parallel", "live_parallel_multiple")
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
OFFICIAL_WEIGHTS = {"non_live": 0.10, "live": 0.10, "irrelevance": 0.10, "multi_turn": 0.30, "agentic": 0.40}

Values = Mapping[str, float | None]


def category_of(case: str) -> str:
    """``live_simple_3-2-0`` -> ``live_simple``."""
    return case.rsplit("_", 1)[0]


def is_multi_turn(category: str) -> bool:
    return category.startswith("multi_turn")


def groups(values: Values) -> dict[str, float | None]:
    """``live``, ``non_live``, ``multi_turn`` and ``average`` from the values of categories (None: not run)."""
    simple = _mean([values.get(name) for name in SIMPLE])
    non_live = _mean([simple, *(values.get(name) for name in ("multiple", "parallel", "parallel_multiple"))])
    live = _weighted([values.get(name) for name in LIVE], [CASES[name] for name in LIVE])
    multi_turn = _mean([values.get(name) for name in MULTI_TURN])
    return {
        "live": live,
        "non_live": non_live,
        "multi_turn": multi_turn,
        "average": _mean([live, non_live, multi_turn]),
    }


def official(values: Values) -> dict[str, float | None]:
    """The leaderboard's own groups and its overall score of 10/10/10/30/40 percent.

    Irrelevance and the agentic categories are not part of this evaluation, so ``overall`` is missing; ``overall_run``
    is what the official program prints then: every category that was not run counts as 0.
    """
    found = groups(values)
    counted = groups({name: values.get(name) or 0.0 for name in CASES})
    weighted = [OFFICIAL_WEIGHTS[name] * (counted[name] or 0.0) for name in ("non_live", "live", "multi_turn")]
    return {
        "official_live": found["live"],
        "official_non_live": found["non_live"],
        "official_multi_turn": found["multi_turn"],
        "official_overall": None,
        "official_overall_not_run_as_zero": sum(weighted),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    return _weighted(values, [1] * len(values))


def _weighted(values: Sequence[float | None], weights: Sequence[int]) -> float | None:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return None
    return sum(value * weight for value, weight in zip(known, weights, strict=True)) / sum(weights)

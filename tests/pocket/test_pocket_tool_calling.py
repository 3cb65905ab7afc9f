"""The generated tool-calling task: exact references, flaws that touch one reward each, independent kinds."""

from __future__ import annotations

import dataclasses
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.pocket import recipe
from harness.pocket import tool_calling as task
from harness.pocket.words import TOOLS
from harness.rewards import tool_calling as reward
from harness.rewards.length import think_words_at_most

MIXTURE = recipe.TOOL_CALLING.mixture
assert isinstance(MIXTURE, task.Mixture)
CLEAN = dataclasses.replace(MIXTURE, tool=1.0, value=1.0, keep=1.0)
ALWAYS = dict.fromkeys((*task.FORMAT_KINDS, "key"), 1.0)

seeds = st.integers(0, 2**32 - 1)


def answer(seed: int, mixture: task.Mixture = CLEAN, **right: float) -> tuple[task.Query, str]:
    """A query and an answer whose kinds are right but for those named in ``right``."""
    generator = np.random.default_rng(seed)
    query = task.draw_query(generator)
    chances = {tool: {**ALWAYS, **right} for tool in TOOLS}
    return query, task.draw_answer(query, mixture, chances, generator)


@given(seeds)
def test_a_reference_earns_both_rewards_and_is_short(seed: int) -> None:
    query = task.draw_query(np.random.default_rng(seed))
    assert reward.score(query.reference, query.reference) == {"format": 1.0, "correctness": 3.0}
    assert think_words_at_most(query.reference, 5) == 1.0
    assert think_words_at_most(query.reference, 4) == 0.0


@given(seeds)
def test_a_query_holds_every_value_of_its_call(seed: int) -> None:
    query = task.draw_query(np.random.default_rng(seed))
    assert set(query.values) == set(TOOLS[query.tool].parameters)
    for value in query.values.values():
        assert (f'"{value}"' if isinstance(value, str) else f" {value}") in query.text


@given(seeds, st.sampled_from(task.FORMAT_KINDS))
def test_each_format_flaw_alone_breaks_the_format_and_not_the_call(seed: int, kind: str) -> None:
    query, text = answer(seed, **{kind: 0.0})
    assert reward.score(text, query.reference) == {"format": 0.0, "correctness": 3.0}
    assert [name for name, found in task.flaws(text).items() if found] == [kind]


@given(seeds)
def test_the_wrong_key_alone_breaks_the_call_and_not_the_format(seed: int) -> None:
    query, text = answer(seed, key=0.0)
    assert reward.score(text, query.reference) == {"format": 1.0, "correctness": -3.0}
    assert [name for name, found in task.flaws(text).items() if found] == ["key"]


@pytest.mark.parametrize("chance", ["tool", "value", "keep"])
def test_each_call_flaw_lowers_correctness_and_never_the_format(chance: str) -> None:
    mixture = dataclasses.replace(CLEAN, **{chance: 0.0})
    scores = [reward.score(text, query.reference) for query, text in (answer(seed, mixture) for seed in range(200))]
    assert {score["format"] for score in scores} == {1.0}
    assert np.mean([score["correctness"] for score in scores]) < 2.0


def test_flaws_of_an_answer_without_its_tags_cannot_be_told() -> None:
    for text in ("", "<think> x </think>", "</tool_call><think></think><tool_call>", "<think><think></think>"):
        found = task.flaws(text)
        assert found["broken"]
        assert sum(found.values()) == 1


def test_ranks_are_permutations_without_correlation() -> None:
    columns = np.array([task.RANKS[kind] for kind in (*task.FORMAT_KINDS, "key")])
    assert columns.shape == (6, len(TOOLS))
    assert all(sorted(column) == list(range(1, len(TOOLS) + 1)) for column in columns)
    quantiles = np.vectorize(NormalDist().inv_cdf)((columns - 0.5) / len(TOOLS))
    correlation = np.corrcoef(quantiles) - np.eye(len(columns))
    assert np.abs(correlation).max() <= 0.062


def test_chances_follow_the_ranks() -> None:
    chances = task.chance_right(MIXTURE)
    tools = list(TOOLS)
    for kind in (*task.FORMAT_KINDS, "key"):
        by_rank = [chances[tools[index]][kind] for index in np.argsort(task.RANKS[kind])]
        assert by_rank == sorted(by_rank)
        assert 0.0 < by_rank[0] < by_rank[-1] < 1.0


def test_warm_start_answers_are_sparse_in_format_and_their_flaws_independent() -> None:
    generator = np.random.default_rng(0)
    chances = task.chance_right(MIXTURE)
    rows, formats = [], []
    for _ in range(6000):
        query = task.draw_query(generator)
        text = task.draw_answer(query, MIXTURE, chances, generator)
        rows.append([task.flaws(text)[kind] for kind in (*task.FORMAT_KINDS, "key")])
        formats.append(reward.score(text, query.reference)["format"])
    assert 0.004 < np.mean(formats) < 0.015
    correlation = np.corrcoef(np.array(rows, dtype=float).T) - np.eye(6)
    assert np.abs(correlation).max() < 0.15

"""The sampler: the right distribution, the same tokens whatever is dropped, and its edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from local_stub import SPEC
from scipy import stats

from harness.engines.local import sampling
from harness.engines.local.policy import Policy, Rollout, sample
from harness.engines.local.sampling import _draw

PROMPTS = [[3, 4, 5, 2], [6, 2], [2]]


def policy(seed: int = 0) -> Policy:
    return Policy(SPEC, torch.Generator().manual_seed(seed))


def rollout(seed: int = 1, **changes: object) -> Rollout:
    settings = {"eos_id": 1, "max_new_tokens": 24, "temperature": 1.0, "top_p": 1.0, **changes}
    group_size = settings.pop("group_size", 8)
    return sample(policy(), PROMPTS, group_size, torch.Generator().manual_seed(seed), **settings)  # type: ignore[arg-type]


def test_a_response_ends_with_the_first_eos_or_at_the_limit() -> None:
    result = rollout()
    for row, logs, length in zip(result.tokens, result.log_probabilities, result.lengths.tolist(), strict=True):
        assert 1 not in row[: length - 1]
        assert row[length - 1] == 1 or length == 24
        assert (row[length:] == 0).all()
        assert (logs[length:] == 0).all()
        assert (logs[:length] < 0).all()
    assert result.tokens.shape == (24, int(result.lengths.max()))


def test_the_seed_decides_everything() -> None:
    first, second, other = rollout(1), rollout(1), rollout(2)
    assert torch.equal(first.tokens, second.tokens)
    assert torch.equal(first.log_probabilities, second.log_probabilities)
    assert not torch.equal(first.lengths, other.lengths)


def test_dropping_finished_rows_changes_no_response(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = rollout()
    monkeypatch.setattr(sampling, "COMPACT_SHARE", 2.0)
    kept = rollout()
    assert torch.equal(dropped.tokens, kept.tokens)
    torch.testing.assert_close(dropped.log_probabilities, kept.log_probabilities, rtol=1e-5, atol=1e-6)


def test_equal_logits_give_equal_chances() -> None:
    even = policy()
    with torch.no_grad():
        even.final_norm.zero_()
    settings = {"eos_id": 1, "max_new_tokens": 1, "temperature": 1.0, "top_p": 1.0}
    flat = sample(even, [[2]], 6000, torch.Generator().manual_seed(0), **settings)  # type: ignore[arg-type]
    counts = np.bincount(flat.tokens[:, 0].numpy(), minlength=SPEC.vocab_size)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert (flat.log_probabilities + np.log(SPEC.vocab_size)).abs().max() < 1e-5


def test_draws_follow_the_distribution() -> None:
    log_softmax = torch.log_softmax(torch.tensor([2.0, 0.0, -1.0, 1.0, -40.0]), 0).expand(40_000, 5)
    uniform = torch.rand(40_000, generator=torch.Generator().manual_seed(4))
    counts = np.bincount(_draw(log_softmax, uniform, 1.0, 1.0).numpy(), minlength=5)
    assert counts[4] == 0
    expected = log_softmax[0, :4].double().exp().numpy()
    assert stats.chisquare(counts[:4], 40_000 * expected / expected.sum()).pvalue > 1e-3


def test_the_largest_uniform_number_never_draws_an_impossible_token() -> None:
    log_softmax = torch.tensor([[0.0, float("-inf")], [np.log(0.3), np.log(0.7)]])
    largest = torch.full((2,), 1.0 - 2.0**-24)
    assert _draw(log_softmax, largest, 1.0, 1.0).tolist() == [0, 1]
    assert _draw(log_softmax, torch.zeros(2), 1.0, 1.0).tolist() == [0, 0]


def test_top_p_keeps_the_smallest_sufficient_set() -> None:
    log_softmax = torch.tensor([0.5, 0.3, 0.15, 0.05]).log().expand(2000, 4)
    uniform = torch.rand(2000, generator=torch.Generator().manual_seed(4))
    assert set(_draw(log_softmax, uniform, 1.0, 0.79).tolist()) == {0, 1}
    assert set(_draw(log_softmax, uniform, 1.0, 0.81).tolist()) == {0, 1, 2}
    assert set(_draw(log_softmax, uniform, 1.0, 1e-6).tolist()) == {0}


def test_temperature_zero_takes_the_most_likely_token() -> None:
    result = rollout(temperature=0.0, group_size=3)
    for group in result.tokens.view(3, 3, -1):
        assert (group == group[0]).all()
    assert torch.equal(result.tokens, rollout(seed=9, temperature=0.0, group_size=3).tokens)


def test_a_sequence_longer_than_the_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="exceed the policy's 64 positions"):
        rollout(max_new_tokens=61)

"""The clipped objective: two tokens and two responses by hand, for every policy loss."""

from __future__ import annotations

import math

import pytest
import torch
from local_stub import LOSSES

from harness.engines.local.objective import clipped_surrogate, kl_penalty, token_statistics, token_weights
from harness.engines.local.optimizer import AdamW

RATIOS = torch.tensor([1.5, 0.9, 0.6])  # response 0 has the first two tokens, response 1 the third
RESPONSE = torch.tensor([0, 0, 1])
LENGTHS = torch.tensor([2, 1])


def loss_and_gradient(
    name: str, advantages: list[float], ratios: torch.Tensor = RATIOS
) -> tuple[float, list[float], float]:
    """Loss, its gradient by the log-probabilities, clip fraction; constant length 10."""
    config = LOSSES[name]
    old = torch.tensor([-1.0, -2.0, -0.5])
    now = (old + ratios.log()).requires_grad_()
    weights = token_weights(config.reduction, LENGTHS, RESPONSE, 10)
    surrogate = clipped_surrogate(now, old, torch.tensor(advantages), RESPONSE, LENGTHS, weights, config)
    surrogate.loss.backward()
    assert now.grad is not None
    return float(surrogate.loss.detach()), now.grad.tolist(), float(surrogate.clip_fraction)


def test_ppo_clip_by_hand() -> None:
    # A = (2, -1), mean over 3 tokens. Token 1: r = 1.5 > 1.2 and A > 0: clipped at 1.2, no gradient. Token 2: free.
    # Token 3: r = 0.6 < 0.8 and A < 0: clipped at 0.8, no gradient.
    loss, gradient, share = loss_and_gradient("ppo_clip", [2.0, -1.0])
    assert loss == pytest.approx(-(1.2 * 2 + 0.9 * 2 - 0.8) / 3)
    assert gradient == pytest.approx([0.0, -0.9 * 2 / 3, 0.0])
    assert share == pytest.approx(2 / 3)


def test_the_clip_is_pessimistic() -> None:
    # A = (-1, 1): ratios beyond the range in the direction that hurts stay free.
    loss, gradient, share = loss_and_gradient("ppo_clip", [-1.0, 1.0])
    assert loss == pytest.approx(-(-1.5 - 0.9 + 0.6) / 3)
    assert gradient == pytest.approx([1.5 / 3, 0.9 / 3, -0.6 / 3])
    assert share == 0.0


def test_dapo_clips_higher_above_than_below() -> None:
    inside = torch.tensor([1.25, 0.9, 0.6])
    loss, gradient, _ = loss_and_gradient("dapo", [2.0, 1.0], inside)
    assert loss == pytest.approx(-(1.25 * 2 + 0.9 * 2 + 0.6) / 3)
    assert gradient == pytest.approx([-1.25 * 2 / 3, -0.9 * 2 / 3, -0.6 / 3])
    loss, gradient, share = loss_and_gradient("dapo", [2.0, 1.0])
    assert loss == pytest.approx(-(1.28 * 2 + 0.9 * 2 + 0.6) / 3)
    assert gradient[0] == 0.0
    assert share == pytest.approx(1 / 3)


def test_gspo_by_hand() -> None:
    # One ratio a response, the geometric mean; the mean over the two responses.
    ratios = torch.tensor([1.0004, 0.9998, 0.9999])
    mean = math.sqrt(1.0004 * 0.9998)  # 1.0001, inside (1 - 3e-4, 1 + 4e-4)
    loss, gradient, share = loss_and_gradient("gspo", [2.0, -1.0], ratios)
    assert loss == pytest.approx(-(mean * 2 - 0.9999) / 2, rel=1e-6)
    assert gradient == pytest.approx([-mean * 2 / 2 / 2, -mean * 2 / 2 / 2, 0.9999 / 2], rel=1e-5)
    assert share == 0.0
    loss, gradient, share = loss_and_gradient("gspo", [2.0, -1.0])
    assert loss == pytest.approx(-(1.0004 * 2 - 0.9997) / 2, rel=1e-6)
    assert gradient == [0.0, 0.0, 0.0]
    assert share == pytest.approx(1.0)


def test_dr_grpo_divides_by_a_constant() -> None:
    # Two responses of at most 10 tokens: every token counts 1 / 20, however long its response.
    loss, gradient, _ = loss_and_gradient("dr_grpo", [2.0, -1.0])
    assert loss == pytest.approx(-(1.2 * 2 + 0.9 * 2 - 0.8) / 20)
    assert gradient == pytest.approx([0.0, -0.9 * 2 / 20, 0.0])


def test_weights_sum_to_one_where_they_average() -> None:
    for reduction in ("token_mean", "sequence_mean"):
        weights = token_weights(reduction, LENGTHS, RESPONSE, 10)
        assert float(weights.sum()) == pytest.approx(1.0)
    assert token_weights("sequence_mean", LENGTHS, RESPONSE, 10).tolist() == [0.25, 0.25, 0.5]
    with pytest.raises(ValueError, match="mean_token"):
        token_weights("mean_token", LENGTHS, RESPONSE, 10)


def test_token_statistics_equal_autograd() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 5, generator=generator, dtype=torch.float64) * 3
    targets = torch.tensor([0, 4, 2, 2, 1, 3, 0])
    ours = logits.clone().requires_grad_()
    theirs = logits.clone().requires_grad_()
    log_probability, entropy = token_statistics(ours, targets)
    log_softmax = torch.log_softmax(theirs, -1)
    expected = log_softmax.gather(1, targets[:, None])[:, 0]
    expected_entropy = -(log_softmax.exp() * log_softmax).sum(-1)
    torch.testing.assert_close(log_probability, expected)
    torch.testing.assert_close(entropy, expected_entropy)
    scale = torch.randn(2, 7, generator=generator, dtype=torch.float64)
    (log_probability * scale[0] + entropy * scale[1]).sum().backward()
    (expected * scale[0] + expected_entropy * scale[1]).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert torch.autograd.gradcheck(lambda x: token_statistics(x, targets), (logits.clone().requires_grad_(),))
    assert torch.autograd.gradcheck(lambda x: token_statistics(x, targets)[0], (logits.clone().requires_grad_(),))


def test_kl_losses_by_hand() -> None:
    policy, reference = torch.tensor([-1.0]), torch.tensor([-3.0])
    assert float(kl_penalty("mse", policy, reference)) == pytest.approx(2.0)
    assert float(kl_penalty("k3", policy, reference)) == pytest.approx(math.exp(-2) + 2 - 1)
    assert float(kl_penalty("k3", policy, policy)) == 0.0
    with pytest.raises(ValueError, match="k1"):
        kl_penalty("k1", policy, reference)


def test_adamw_equals_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(5, 3, generator=generator), torch.randn(4, generator=generator)]
    ours = [tensor.clone().requires_grad_() for tensor in start]
    theirs = [tensor.clone().requires_grad_() for tensor in start]
    mine = AdamW(ours, 0.01, 0.1)
    reference = torch.optim.AdamW(theirs, lr=0.01, weight_decay=0.1)
    for _ in range(5):
        for first, second in zip(ours, theirs, strict=True):
            first.grad = torch.randn(first.shape, generator=generator)
            second.grad = first.grad.clone()
        mine.step()
        reference.step()
    for first, second in zip(ours, theirs, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-6, atol=1e-7)
    mine.zero_gradients()
    before = [tensor.clone() for tensor in ours]
    mine.step()
    assert all(torch.equal(first, second) for first, second in zip(ours, before, strict=True))

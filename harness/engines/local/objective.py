"""The clipped objective on packed tokens, and the statistics of a token it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.config import PolicyLossConfig


class _TokenStatistics(torch.autograd.Function):
    """Log-probability of the target and entropy per row of logits, with one exponential and three passes backwards."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        largest = logits.amax(-1, keepdim=True)
        probabilities = (logits - largest).exp_()
        total = probabilities.sum(-1, keepdim=True)
        probabilities.div_(total)
        normaliser = largest + total.log()
        log_probability = logits.gather(1, targets[:, None]) - normaliser
        entropy = normaliser - torch.linalg.vecdot(probabilities, logits).unsqueeze(-1)
        ctx.save_for_backward(logits, probabilities, normaliser, entropy, targets)
        return log_probability[:, 0], entropy[:, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, None]:
        logits, probabilities, normaliser, entropy, targets = ctx.saved_tensors
        of_log_probability, of_entropy = gradients
        assert of_log_probability is not None
        # d log p_y = onehot - p;  d H = -p (log p + H)
        if of_entropy is None:
            result = probabilities * -of_log_probability[:, None]
        else:
            slope = -of_entropy[:, None]
            offset = of_entropy[:, None] * (normaliser - entropy) - of_log_probability[:, None]
            result = torch.addcmul(offset, logits, slope).mul_(probabilities)
        at_target = result.gather(1, targets[:, None]) + of_log_probability[:, None]
        result.scatter_(1, targets[:, None], at_target)
        return result, None


def token_statistics(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """[M, V] logits and [M] targets -> log-probability of the targets [M], entropy in nats [M]; differentiable."""
    log_probability, entropy = _TokenStatistics.apply(logits, targets)
    return log_probability, entropy


def token_weights(reduction: str, lengths: Tensor, response: Tensor, max_response_tokens: int) -> Tensor:
    """Weight of each token, [M], so that a batch's value is the weighted sum of its tokens' values.

    ``lengths`` [N] tokens of each response, ``response`` [M] the response of each token. ``token_mean``: 1 / M.
    ``sequence_mean``: mean over responses of the mean over their tokens. ``constant_length``: summed, divided by
    N * ``max_response_tokens`` (arXiv 2503.20783).
    """
    tokens, responses = len(response), len(lengths)
    if reduction == "token_mean":
        return torch.full((tokens,), 1.0 / tokens, device=response.device)
    if reduction == "sequence_mean":
        return (1.0 / (lengths.float() * responses))[response]
    if reduction == "constant_length":
        return torch.full((tokens,), 1.0 / (responses * max_response_tokens), device=response.device)
    raise ValueError(f"unknown reduction {reduction!r}")


@dataclass(frozen=True)
class Surrogate:
    """``loss`` to be minimised; ``clip_fraction``: weighted share of tokens at which the clip cuts the gradient."""

    loss: Tensor
    clip_fraction: Tensor


def clipped_surrogate(
    log_probability: Tensor,
    old_log_probability: Tensor,
    advantages: Tensor,
    response: Tensor,
    lengths: Tensor,
    weights: Tensor,
    config: PolicyLossConfig,
) -> Surrogate:
    """Minus the weighted sum of min(r A, clip(r, 1 - low, 1 + high) A) over tokens (arXiv 1707.06347, Eq. 7).

    ``advantages`` [N] one value a response, held by each of its tokens. ``ratio: token``: r is the token's
    pi / pi_old. ``ratio: sequence`` (gspo, arXiv 2507.18071, Eq. 7): r is the geometric mean of the response's ratios.
    There is no second clip for negative advantages (verl has one at ratio 3).
    """
    log_ratio = log_probability - old_log_probability
    if config.ratio == "sequence":
        summed = torch.zeros(len(lengths), device=log_ratio.device).index_add(0, response, log_ratio)
        log_ratio = (summed / lengths)[response]
    ratio = log_ratio.exp()
    advantage = advantages[response]
    free = ratio * advantage
    clipped = ratio.clamp(1.0 - config.clip_low, 1.0 + config.clip_high) * advantage
    with torch.no_grad():
        share = (weights * (clipped < free)).sum() / weights.sum()
    return Surrogate(-(weights * torch.minimum(free, clipped)).sum(), share)


def kl_penalty(kind: str, log_probability: Tensor, reference: Tensor) -> Tensor:
    """KL of the policy to the reference at each sampled token, as a loss. ``mse``: half the squared log-ratio.
    ``k3``: q - log q - 1 with q = reference / policy (non-negative; its expectation is the KL)."""
    difference = reference - log_probability
    if kind == "mse":
        return 0.5 * difference.square()
    if kind == "k3":
        return difference.exp() - difference - 1.0
    raise ValueError(f"unknown KL loss {kind!r}")

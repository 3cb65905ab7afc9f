"""Sampling groups of responses with a key-value cache.

The prompt is computed once per group. Rows that have ended are dropped from the batch from time to time. A token
costs one uniform number, turned into a token by the inverse of the cumulative distribution; the numbers of a response
are drawn in advance, so that neither the other rows nor the dropping decide what a response will be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from harness.engines.local.network import Policy
from harness.engines.local.packing import pack_bodies

COMPACT_EVERY = 4
COMPACT_SHARE = 0.2


@dataclass(frozen=True)
class Rollout:
    """N = prompts x group size responses, prompt-major. ``tokens`` [N, T] int64, zero after the end;
    ``log_probabilities`` [N, T] of the sampled tokens under softmax(logits / temperature), before top-p; ``lengths``
    [N] tokens with EOS."""

    tokens: Tensor
    log_probabilities: Tensor
    lengths: Tensor


@torch.inference_mode()
def sample(
    policy: Policy,
    prompts: Sequence[Sequence[int]],
    group_size: int,
    generator: torch.Generator,
    *,
    eos_id: int,
    max_new_tokens: int,
    temperature: float,
    top_p: float,
) -> Rollout:
    """Sample ``group_size`` responses to each prompt, each until EOS or ``max_new_tokens``.

    ``generator`` lives on the CPU, so that every device gets the same numbers. ``temperature`` 0 takes the most
    likely token and reports log-probabilities at temperature 1. FloatingPointError if
    logits are not finite; ValueError if a sequence would outgrow the policy's
    positions.
    """
    spec = policy.spec
    longest = max(len(prompt) for prompt in prompts)
    if longest + max_new_tokens > spec.max_positions:
        raise ValueError(
            f"prompt of {longest} tokens and {max_new_tokens} new ones exceed the policy's "
            f"{spec.max_positions} positions"
        )
    rows = len(prompts) * group_size
    uniform = torch.rand(rows, max_new_tokens, generator=generator)
    cache = _Cache(policy, prompts, group_size, max_new_tokens)

    tokens = torch.zeros(rows, max_new_tokens, dtype=torch.long, device=policy.device)
    log_probabilities = torch.zeros(rows, max_new_tokens, device=policy.device)
    lengths = torch.full((rows,), max_new_tokens, device=policy.device)
    alive = torch.arange(rows, device=policy.device)
    ended = torch.zeros(rows, dtype=torch.bool, device=policy.device)
    token = cache.last_prompt_tokens
    for step in range(max_new_tokens):
        log_softmax = torch.log_softmax(cache.logits(token) / (temperature or 1.0), -1)
        token = _draw(log_softmax, uniform[alive.cpu(), step], temperature, top_p).to(policy.device)
        chosen = log_softmax.gather(1, token[:, None])[:, 0]
        tokens[alive, step] = token.masked_fill(ended, 0)
        log_probabilities[alive, step] = chosen.masked_fill(ended, 0.0)
        now = (token == eos_id) & ~ended
        lengths[alive[now]] = step + 1
        ended = ended | now
        share = float(ended.float().mean())
        if share == 1.0:
            break
        if step % COMPACT_EVERY == COMPACT_EVERY - 1 and share > COMPACT_SHARE:
            keep = (~ended).nonzero()[:, 0]
            alive, token, ended = alive[keep], token[keep], ended[keep]
            cache.keep(keep)
    width = int(lengths.max())
    return Rollout(tokens[:, :width].clone(), log_probabilities[:, :width].clone(), lengths)


def _draw(log_softmax: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """One token a row from log-probabilities [R, V] and uniform numbers [R] on the CPU, where sums along a row come
    in a fixed order. FloatingPointError if they are no probabilities."""
    probabilities = log_softmax.exp().cpu()
    if not torch.isfinite(probabilities.sum()):
        raise FloatingPointError("the logits of the policy are not finite")
    if temperature == 0.0:
        return probabilities.argmax(-1)
    if top_p < 1.0:
        ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = ordered.cumsum(-1) - ordered
        probabilities = torch.zeros_like(probabilities).scatter(1, order, ordered.masked_fill(before >= top_p, 0.0))
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    # Below the total even after rounding, so that the drawn token always has positive probability.
    threshold = torch.minimum(uniform[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, threshold, right=True)[:, 0]


class _Cache:
    """Keys and values of the running rows: P prompt columns (padded on the right), then one a generated token."""

    def __init__(self, policy: Policy, prompts: Sequence[Sequence[int]], group_size: int, max_new_tokens: int) -> None:
        spec, device = policy.spec, policy.device
        self.policy = policy
        owner = torch.arange(len(prompts), device=device).repeat_interleave(group_size)
        lengths = torch.tensor([len(prompt) - 1 for prompt in prompts], device=device)[owner]
        self.last_prompt_tokens = torch.tensor([prompt[-1] for prompt in prompts], device=device)[owner]
        self.position = lengths
        bodies = policy.body_states(pack_bodies(prompts, device))
        width = bodies[0].shape[1]
        columns = width + max_new_tokens
        shape = (len(owner), spec.kv_heads, columns, spec.head_size)
        self.keys = [torch.zeros(shape, device=device) for _ in bodies]
        self.values = [torch.zeros(shape, device=device) for _ in bodies]
        for index, body in enumerate(bodies):
            key, value = body[owner].transpose(1, 2).chunk(2, 1)
            self.keys[index][:, :, :width] = key
            self.values[index][:, :, :width] = value
        padding = torch.arange(columns, device=device)[None, :] >= lengths[:, None]
        padding[:, width:] = False
        self.mask = torch.zeros(len(owner), 1, 1, columns, device=device)
        self.mask.masked_fill_(padding[:, None, None], float("-inf"))
        self.filled = width

    def logits(self, token: Tensor) -> Tensor:
        """Feed one token a row, [R] -> logits [R, V] of the next."""
        policy, spec = self.policy, self.policy.spec
        hidden, rotations = policy.embed(token), policy.rotations_at(self.position)
        self.position = self.position + 1
        self.filled += 1
        for index in range(spec.layers):
            query, key, value = policy.project(index, hidden, rotations).split(
                [spec.heads, spec.kv_heads, spec.kv_heads], 1
            )
            self.keys[index][:, :, self.filled - 1] = key
            self.values[index][:, :, self.filled - 1] = value
            hidden = policy.finish(index, hidden, self._attend(index, query))
        return policy.logits(policy.norm(hidden, policy.final_norm))

    def _attend(self, index: int, query: Tensor) -> Tensor:
        """One query [R, heads, D] a row over the filled columns -> [R, heads * D]. Keys of a row lie next to each
        other, which makes these products twice as fast as over the layout of training."""
        rows, heads, size = query.shape
        kv_heads, seen = self.policy.spec.kv_heads, self.filled
        folded = (query * size**-0.5).view(rows * kv_heads, heads // kv_heads, size)
        keys = self.keys[index].flatten(0, 1)[:, :seen]
        values = self.values[index].flatten(0, 1)[:, :seen]
        scores = torch.bmm(folded, keys.transpose(1, 2)).view(rows, kv_heads, -1, seen)
        weights = torch.softmax(scores.add_(self.mask[..., :seen]), -1)
        return torch.bmm(weights.view(rows * kv_heads, -1, seen), values).view(rows, heads * size)

    def keep(self, rows: Tensor) -> None:
        self.keys = [keys[rows] for keys in self.keys]
        self.values = [values[rows] for values in self.values]
        self.mask, self.position = self.mask[rows], self.position[rows]

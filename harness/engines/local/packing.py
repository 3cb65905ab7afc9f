"""Prompts and responses of a batch, laid out for a forward pass without padding and with the prompt computed once per
group.

A sequence is cut after the last-but-one prompt token. What comes before, the *body*, is the same for every response
of a prompt and enters the batch once. What follows, the *stream* of a response, starts with the last prompt token and
ends before the last response token: each of its tokens predicts exactly one response token, so that no hidden state
and no logit is computed that the objective does not use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Stretch:
    """Pieces of sequences without padding: M tokens of R rows, each row a piece of at most W tokens.

    ``tokens`` [M], ``positions`` [M] in the sequence (from 0), ``slots`` [M] index into the padded grid [R * W].
    """

    tokens: Tensor
    positions: Tensor
    slots: Tensor
    rows: int
    width: int


@dataclass(frozen=True)
class PackedBodies:
    """Every prompt without its last token: B rows of at most P tokens, and the additive causal mask [B, P, P]."""

    stretch: Stretch
    mask: Tensor


@dataclass(frozen=True)
class PackedBatch:
    """N responses to B prompts. ``prompt_of`` [N] is the body of each response; ``stream_mask`` [N, W, P + W] is
    added to attention scores (0 or -inf); ``targets`` [M] is the token each stream token predicts and ``response``
    [M] the response it belongs to. Stream tokens are ordered by response."""

    bodies: PackedBodies
    stream: Stretch
    prompt_of: Tensor
    stream_mask: Tensor
    targets: Tensor
    response: Tensor


def pack(
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int] | np.ndarray],
    prompt_of: Sequence[int] | np.ndarray,
    device: torch.device | str = "cpu",
) -> PackedBatch:
    """Lay out ``responses[n]`` as answers to ``prompts[prompt_of[n]]``; no sequence may be empty (ValueError)."""
    prompt_lengths = np.array([len(prompt) for prompt in prompts], dtype=np.int64)
    response_lengths = np.array([len(response) for response in responses], dtype=np.int64)
    owner = np.asarray(prompt_of, dtype=np.int64)
    if len(responses) == 0 or prompt_lengths.min(initial=1) < 1 or response_lengths.min(initial=1) < 1:
        raise ValueError("pack: needs at least one response, and no prompt or response may be empty")
    if owner.shape != response_lengths.shape or owner.min() < 0 or owner.max() >= len(prompts):
        raise ValueError(
            f"pack: prompt_of must name one of {len(prompts)} prompts for each of {len(responses)} responses"
        )

    body_lengths = prompt_lengths - 1
    targets = np.concatenate([np.asarray(response, dtype=np.int64) for response in responses])
    inputs = np.empty_like(targets)
    inputs[1:] = targets[:-1]
    starts = np.concatenate([[0], np.cumsum(response_lengths)[:-1]])
    inputs[starts] = np.array([prompt[-1] for prompt in prompts], dtype=np.int64)[owner]

    bodies = pack_bodies(prompts, device)
    body_width = bodies.stretch.width
    stream = _stretch(inputs, response_lengths, body_lengths[owner], device)
    in_body = np.arange(body_width)[None, :] < body_lengths[:, None]  # [B, P]
    causal_stream = np.tril(np.ones((stream.width, stream.width), dtype=bool))
    stream_sees = np.concatenate(
        [
            np.broadcast_to(in_body[owner][:, None, :], (len(owner), stream.width, body_width)),
            np.broadcast_to(causal_stream, (len(owner), stream.width, stream.width)),
        ],
        axis=2,
    )
    response = np.repeat(np.arange(len(owner)), response_lengths)
    return PackedBatch(
        bodies=bodies,
        stream=stream,
        prompt_of=torch.from_numpy(owner).to(device),
        stream_mask=_additive(stream_sees, device),
        targets=torch.from_numpy(targets).to(device),
        response=torch.from_numpy(response).to(device),
    )


def pack_bodies(prompts: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> PackedBodies:
    """Lay out the prompts of a batch without their last tokens (ValueError for an empty prompt)."""
    lengths = np.array([len(prompt) - 1 for prompt in prompts], dtype=np.int64)
    if len(lengths) == 0 or lengths.min() < 0:
        raise ValueError("pack_bodies: needs at least one prompt, and none may be empty")
    tokens = np.concatenate([np.asarray(prompt[:-1], dtype=np.int64) for prompt in prompts])
    stretch = _stretch(tokens, lengths, np.zeros_like(lengths), device)
    in_body = np.arange(stretch.width)[None, :] < lengths[:, None]
    sees = np.tril(np.ones((stretch.width, stretch.width), dtype=bool)) & in_body[:, None, :]
    # A padded query would see nothing and give NaN: let it see itself.
    sees |= np.eye(stretch.width, dtype=bool)
    return PackedBodies(stretch, _additive(sees, device))


def _stretch(tokens: np.ndarray, lengths: np.ndarray, first: np.ndarray, device: torch.device | str) -> Stretch:
    """Rows of ``lengths`` tokens whose first token stands at position ``first`` of its sequence."""
    width = max(int(lengths.max(initial=0)), 1)
    row = np.repeat(np.arange(len(lengths)), lengths)
    column = np.arange(len(tokens)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Stretch(
        tokens=torch.from_numpy(tokens).to(device),
        positions=torch.from_numpy(column + first[row]).to(device),
        slots=torch.from_numpy(row * width + column).to(device),
        rows=len(lengths),
        width=width,
    )


def _additive(sees: np.ndarray, device: torch.device | str) -> Tensor:
    mask = torch.zeros(sees.shape, dtype=torch.float32)
    mask.masked_fill_(torch.from_numpy(~sees), float("-inf"))
    return mask.to(device)

"""The policy: a small Qwen2 (arXiv 2407.10671) in float32 with fused weights and a forward pass of its own.

Same function as ``transformers.Qwen2ForCausalLM`` with tied embeddings, written for many short sequences on one core:
query, key and value are one matrix, gate and up another; linear layers see real tokens only; the prompt is computed
once per group (:mod:`harness.engines.local.packing`). Left out: dropout, sliding windows, rope scaling, untied heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.engines.local.packing import PackedBatch, PackedBodies, Stretch

NORM_EPS = 1e-6

# Queries [M, heads, D], keys and values [M, kv_heads, D] of layer i -> attention output [M', heads * D].
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PolicySpec:
    """Shape of a policy. ``hidden_size`` must be ``heads * head_size`` (servers derive one from the other)."""

    vocab_size: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int
    head_size: int = 32
    rope_theta: float = 10000.0
    max_positions: int = 512

    def __post_init__(self) -> None:
        if self.hidden_size != self.heads * self.head_size:
            raise ValueError(
                f"hidden_size {self.hidden_size} must be heads * head_size = {self.heads} * {self.head_size}"
            )
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} must be a multiple of kv_heads {self.kv_heads}")


class Layer(nn.Module):
    """Weights of one decoder layer. ``qkv`` rows: queries, keys, values; ``gate_up`` rows: gate, up."""

    def __init__(self, spec: PolicySpec) -> None:
        super().__init__()
        width, size = (spec.heads + 2 * spec.kv_heads) * spec.head_size, spec.hidden_size
        self.attention_norm = nn.Parameter(torch.ones(size))
        self.qkv = nn.Parameter(torch.empty(width, size))
        self.qkv_bias = nn.Parameter(torch.zeros(width))
        self.output = nn.Parameter(torch.empty(size, size))
        self.mlp_norm = nn.Parameter(torch.ones(size))
        self.gate_up = nn.Parameter(torch.empty(2 * spec.intermediate_size, size))
        self.down = nn.Parameter(torch.empty(size, spec.intermediate_size))


class Policy(nn.Module):
    """A Qwen2 language model. ``generator`` initialises it (embedding std 0.02, matrices 0.04); None leaves the
    matrices unset, for :func:`load_policy`."""

    cosine: Tensor
    sine: Tensor

    def __init__(self, spec: PolicySpec, generator: torch.Generator | None) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = nn.Parameter(torch.empty(spec.vocab_size, spec.hidden_size))
        self.blocks = nn.ModuleList(Layer(spec) for _ in range(spec.layers))
        self.final_norm = nn.Parameter(torch.ones(spec.hidden_size))
        frequency = 1.0 / spec.rope_theta ** (torch.arange(0, spec.head_size, 2).float() / spec.head_size)
        angle = torch.outer(torch.arange(spec.max_positions).float(), frequency)
        self.register_buffer("cosine", torch.cat([angle.cos(), angle.cos()], -1), persistent=False)
        self.register_buffer("sine", torch.cat([-angle.sin(), angle.sin()], -1), persistent=False)
        if generator is not None:
            self._initialise(generator)

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        self.embedding.normal_(0.0, 0.02, generator=generator)
        for layer in self.layers:
            for matrix in (layer.qkv, layer.output, layer.gate_up, layer.down):
                matrix.normal_(0.0, 0.04, generator=generator)

    @property
    def layers(self) -> list[Layer]:
        return [layer for layer in self.blocks if isinstance(layer, Layer)]

    @property
    def device(self) -> torch.device:
        return self.embedding.device

    def embed(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.embedding)

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., hidden_size] after the final norm -> [..., vocab_size]."""
        return F.linear(hidden, self.embedding)

    def norm(self, hidden: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(hidden, (self.spec.hidden_size,), weight, NORM_EPS)

    def project(self, index: int, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries [M, heads, D], rotated keys and values [M, kv_heads, D] of ``hidden`` [M, hidden_size]."""
        spec, layer = self.spec, self.layers[index]
        mixed = F.linear(self.norm(hidden, layer.attention_norm), layer.qkv, layer.qkv_bias)
        mixed = mixed.view(*hidden.shape[:-1], spec.heads + 2 * spec.kv_heads, spec.head_size)
        rotated = rotate(mixed[..., : spec.heads + spec.kv_heads, :], cosine, sine)
        return (
            rotated[..., : spec.heads, :],
            rotated[..., spec.heads :, :],
            mixed[..., spec.heads + spec.kv_heads :, :],
        )

    def finish(self, index: int, hidden: Tensor, attended: Tensor) -> Tensor:
        """Residual, output projection and MLP of one layer."""
        layer = self.layers[index]
        hidden = hidden + F.linear(attended, layer.output)
        gate, up = F.linear(self.norm(hidden, layer.mlp_norm), layer.gate_up).chunk(2, -1)
        return hidden + F.linear(F.silu(gate) * up, layer.down)

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine [M, 1, D] for positions [M]."""
        return self.cosine[positions].unsqueeze(-2), self.sine[positions].unsqueeze(-2)

    def body_states(self, bodies: PackedBodies) -> list[tuple[Tensor, Tensor]]:
        """Keys and values of the bodies in each layer, padded [B, P, kv_heads, D]. The last layer's queries and MLP are
        never needed."""
        stretch, hidden = bodies.stretch, self.embed(bodies.stretch.tokens)
        rotation = self.rotation(stretch.positions)
        states = []
        for index in range(self.spec.layers):
            query, key, value = self.project(index, hidden, *rotation)
            keys, values = _grid(key, stretch), _grid(value, stretch)
            states.append((keys, values))
            if index < self.spec.layers - 1:
                attended = attention(_grid(query, stretch), keys, values, bodies.mask)
                hidden = self.finish(index, hidden, _pieces(attended, stretch))
        return states

    def hidden_packed(self, batch: PackedBatch) -> Tensor:
        """Normed hidden state of each stream token, [M, hidden_size]; the hidden states of a body are shared."""
        stream, hidden = batch.stream, self.embed(batch.stream.tokens)
        rotation = self.rotation(stream.positions)
        for index, (body_keys, body_values) in enumerate(self.body_states(batch.bodies)):
            query, key, value = self.project(index, hidden, *rotation)
            keys = torch.cat([body_keys.index_select(0, batch.prompt_of), _grid(key, stream)], 1)
            values = torch.cat([body_values.index_select(0, batch.prompt_of), _grid(value, stream)], 1)
            attended = attention(_grid(query, stream), keys, values, batch.stream_mask)
            hidden = self.finish(index, hidden, _pieces(attended, stream))
        return self.norm(hidden, self.final_norm)

    def log_probabilities(self, batch: PackedBatch, temperature: float = 1.0) -> Tensor:
        """Log-probability of each response token, [M], under softmax(logits / temperature)."""
        logits = self.logits(self.hidden_packed(batch)) / temperature
        return torch.log_softmax(logits, -1).gather(1, batch.targets[:, None])[:, 0]


def rotate(states: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding (arXiv 2104.09864, half-split layout) of ``states`` [..., heads, D]."""
    half = states.shape[-1] // 2
    return states * cosine + torch.cat([states[..., half:], states[..., :half]], -1) * sine


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Queries [N, Q, heads, D] over keys and values [N, S, kv_heads, D] with an additive mask [N, Q, S] -> [N, Q,
    heads * D].

    With one key-value head, all heads of a row are one matrix product without any transposition."""
    rows, queries, heads, size = query.shape
    kv_heads, seen = key.shape[2], key.shape[1]
    per_kv = heads // kv_heads
    folded = query.view(rows, queries, kv_heads, per_kv, size).transpose(1, 2)
    folded = folded.reshape(rows * kv_heads, queries * per_kv, size) * size**-0.5
    keys = key.transpose(1, 2).reshape(rows * kv_heads, seen, size)
    values = value.transpose(1, 2).reshape(rows * kv_heads, seen, size)
    scores = torch.bmm(folded, keys.transpose(1, 2)).view(rows, kv_heads, queries, per_kv, seen)
    weights = torch.softmax(scores + mask[:, None, :, None, :], -1)
    attended = torch.bmm(weights.view(rows * kv_heads, queries * per_kv, seen), values)
    return attended.view(rows, kv_heads, queries, per_kv, size).transpose(1, 2).reshape(rows, queries, heads * size)


def _grid(states: Tensor, stretch: Stretch) -> Tensor:
    """[M, heads, D] -> padded [R, W, heads, D]."""
    flat = states.reshape(len(stretch.tokens), -1)
    grid = flat.new_zeros(stretch.rows * stretch.width, flat.shape[1]).index_copy(0, stretch.slots, flat)
    return grid.view(stretch.rows, stretch.width, *states.shape[1:])


def _pieces(grid: Tensor, stretch: Stretch) -> Tensor:
    """[R, W, C] -> [M, C]."""
    return grid.reshape(stretch.rows * stretch.width, -1).index_select(0, stretch.slots)

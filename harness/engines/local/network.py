"""The policy: a small Qwen2 (arXiv 2407.10671) in float32 with fused weights and a forward pass of its own.

Same function as ``transformers.Qwen2ForCausalLM`` with tied embeddings, written for many short sequences on one core:
query, key and value are one matrix, gate and up another; linear layers see real tokens only; the prompt is computed
once per group (:mod:`harness.engines.local.packing`). Left out: dropout, sliding windows, rope scaling, untied heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.engines.local.packing import PackedBatch, PackedBodies, Stretch

NORM_EPS = 1e-6


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
    """Weights of one decoder layer. ``qkv`` rows: queries, keys, values; the rows of a query or key head alternate
    between the halves that rotary embedding pairs. ``gate_up`` rows: gate, up."""

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

    rotations: Tensor

    def __init__(self, spec: PolicySpec, generator: torch.Generator | None) -> None:
        super().__init__()
        self.spec = spec
        self.embedding = nn.Parameter(torch.empty(spec.vocab_size, spec.hidden_size))
        self.blocks = nn.ModuleList(Layer(spec) for _ in range(spec.layers))
        self.final_norm = nn.Parameter(torch.ones(spec.hidden_size))
        self.register_buffer("rotations", _rotations(spec), persistent=False)
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
        normed: Tensor = _RMSNorm.apply(hidden, weight)
        return normed

    def project(self, index: int, hidden: Tensor, rotations: Tensor) -> Tensor:
        """Rotated queries, rotated keys, then values of ``hidden`` [M, hidden_size]: [M, heads + 2 kv_heads, D]."""
        spec, layer = self.spec, self.layers[index]
        mixed = F.linear(self.norm(hidden, layer.attention_norm), layer.qkv, layer.qkv_bias)
        heads, pairs = spec.heads + 2 * spec.kv_heads, spec.head_size // 2
        paired = torch.view_as_complex(mixed.view(len(hidden), heads, pairs, 2))
        return torch.view_as_real(paired * rotations).view(len(hidden), heads, spec.head_size)

    def finish(self, index: int, hidden: Tensor, attended: Tensor) -> Tensor:
        """Residual, output projection and MLP of one layer."""
        layer = self.layers[index]
        hidden = hidden + F.linear(attended, layer.output)
        inner: Tensor = _GatedSilu.apply(F.linear(self.norm(hidden, layer.mlp_norm), layer.gate_up))
        return hidden + F.linear(inner, layer.down)

    def rotations_at(self, positions: Tensor) -> Tensor:
        """[M, heads + 2 kv_heads, D / 2] complex for positions [M]; values are not turned."""
        return self.rotations.index_select(0, positions)

    def body_states(self, bodies: PackedBodies) -> list[Tensor]:
        """Keys and values of the bodies in each layer, padded [B, P, 2 kv_heads, D]. The last layer's queries and MLP
        are never needed."""
        spec, stretch = self.spec, bodies.stretch
        hidden, rotations = self.embed(stretch.tokens), self.rotations_at(stretch.positions)
        states = []
        for index in range(spec.layers):
            grid = _grid(self.project(index, hidden, rotations), stretch)
            query, key_value = grid[:, :, : spec.heads], grid[:, :, spec.heads :]
            states.append(key_value)
            if index < spec.layers - 1:
                hidden = self.finish(index, hidden, _pieces(attention(query, key_value, bodies.mask), stretch))
        return states

    def hidden_packed(self, batch: PackedBatch) -> Tensor:
        """Normed hidden state of each stream token, [M, hidden_size]; the hidden states of a body are shared."""
        spec, stream = self.spec, batch.stream
        hidden, rotations = self.embed(stream.tokens), self.rotations_at(stream.positions)
        for index, body in enumerate(self.body_states(batch.bodies)):
            grid = _grid(self.project(index, hidden, rotations), stream)
            key_value = torch.cat([body.index_select(0, batch.prompt_of), grid[:, :, spec.heads :]], 1)
            attended = attention(grid[:, :, : spec.heads], key_value, batch.stream_mask)
            hidden = self.finish(index, hidden, _pieces(attended, stream))
        return self.norm(hidden, self.final_norm)

    def log_probabilities(self, batch: PackedBatch, temperature: float = 1.0) -> Tensor:
        """Log-probability of each response token, [M], under softmax(logits / temperature)."""
        logits = self.logits(self.hidden_packed(batch)) / temperature
        return torch.log_softmax(logits, -1).gather(1, batch.targets[:, None])[:, 0]


def attention(query: Tensor, key_value: Tensor, mask: Tensor) -> Tensor:
    """Queries [N, Q, heads, D], keys and values [N, S, 2 kv_heads, D], additive mask [N, Q, S] -> [N, Q, heads * D].

    With one key-value head, all heads of a row are one matrix product without any transposition."""
    rows, queries, heads, size = query.shape
    seen, kv_heads = key_value.shape[1], key_value.shape[2] // 2
    per_kv = heads // kv_heads
    folded = (query * size**-0.5).view(rows, queries, kv_heads, per_kv, size).transpose(1, 2)
    folded = folded.reshape(rows * kv_heads, queries * per_kv, size)
    keys = key_value[:, :, :kv_heads].transpose(1, 2).reshape(rows * kv_heads, seen, size)
    values = key_value[:, :, kv_heads:].transpose(1, 2).reshape(rows * kv_heads, seen, size)
    scores = torch.bmm(folded, keys.transpose(1, 2)).view(rows, kv_heads, queries, per_kv, seen)
    weights = torch.softmax(scores.add_(mask[:, None, :, None, :]), -1)
    attended = torch.bmm(weights.view(rows * kv_heads, queries * per_kv, seen), values)
    return attended.view(rows, kv_heads, queries, per_kv, size).transpose(1, 2).reshape(rows, queries, heads * size)


def _rotations(spec: PolicySpec) -> Tensor:
    """Rotary embedding (arXiv 2104.09864) as complex numbers, [max_positions, heads + 2 kv_heads, D / 2]; 1 for
    values."""
    frequency = 1.0 / spec.rope_theta ** (torch.arange(0, spec.head_size, 2).float() / spec.head_size)
    angle = torch.outer(torch.arange(spec.max_positions).float(), frequency)
    turns = torch.complex(angle.cos(), angle.sin()).unsqueeze(1)
    still = torch.ones_like(turns).expand(-1, spec.kv_heads, -1)
    return torch.cat([turns.expand(-1, spec.heads + spec.kv_heads, -1), still], 1)


class _RMSNorm(torch.autograd.Function):
    """x / sqrt(mean(x^2) + eps) * weight over the last axis (arXiv 1910.07467), in fewer passes than autograd's."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor) -> Tensor:
        norm = torch.linalg.vector_norm(hidden, 2, -1, keepdim=True)
        inverse = norm.square_().div_(hidden.shape[-1]).add_(NORM_EPS).rsqrt_()
        unit = hidden * inverse
        ctx.save_for_backward(unit, inverse, weight)
        return unit * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        unit, inverse, weight = ctx.saved_tensors
        (gradient,) = gradients
        along = gradient * unit
        of_weight = along.sum(0)
        share = torch.mv(along, weight).div_(-unit.shape[-1]).unsqueeze(1)
        return (gradient * weight).addcmul_(unit, share).mul_(inverse), of_weight


class _GatedSilu(torch.autograd.Function):
    """silu(gate) * up (arXiv 2002.05202) of [M, 2 F] -> [M, F]; writes both gradients into one tensor."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, -1)
        opened = F.silu(gate)
        ctx.save_for_backward(gate_up, opened)
        return opened * up

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gate_up, opened = ctx.saved_tensors
        (gradient,) = gradients
        gate, up = gate_up.chunk(2, -1)
        result = torch.empty_like(gate_up)
        of_gate, of_up = result.chunk(2, -1)
        torch.mul(gradient, opened, out=of_up)
        torch.mul(gradient, up, out=of_gate)
        torch.ops.aten.silu_backward.grad_input(of_gate, gate, grad_input=of_gate)
        return result


def _grid(states: Tensor, stretch: Stretch) -> Tensor:
    """[M, heads, D] -> padded [R, W, heads, D]."""
    flat = states.flatten(1)
    grid = flat.new_zeros(stretch.rows * stretch.width, flat.shape[1]).index_copy(0, stretch.slots, flat)
    return grid.view(stretch.rows, stretch.width, *states.shape[1:])


def _pieces(grid: Tensor, stretch: Stretch) -> Tensor:
    """[R, W, C] -> [M, C]."""
    return grid.flatten(0, 1).index_select(0, stretch.slots)

"""How each pocket model is made: every number that determines a warm start, in one place.

The numbers were chosen by the rule in docs/pocket.md, on figures of the base policy alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.pocket import arithmetic, tool_calling


@dataclass(frozen=True)
class Shape:
    """Shape of the Qwen2 model; the vocabulary is the tokenizer's, rounded up to a multiple of 8."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    intermediate_size: int


@dataclass(frozen=True)
class Recipe:
    """Supervised warm start: ``steps`` of AdamW on ``batch`` fresh question-answer pairs, loss on answer tokens alone,
    learning rate linear to ``learning_rate`` over ``warmup`` steps and linear to zero at the end.

    Two numbers make copying from the query quick to learn and change no probability that the loss aims at: tokens of
    parameter values count ``value_weight`` times, and the embedding starts with standard deviation ``embedding_std``.
    ``threads`` is fixed: the order of floating-point sums depends on it."""

    mixture: tool_calling.Mixture | arithmetic.Mixture
    shape: Shape
    steps: int
    batch: int
    learning_rate: float
    warmup: int
    weight_decay: float
    gradient_clip: float
    embedding_std: float
    value_weight: float
    threads: int


TOOL_CALLING = Recipe(
    mixture=tool_calling.Mixture(
        format_logit=-1.0,
        format_spread=2.5,
        key_logit=-2.2,
        key_spread=1.5,
        tool=0.9,
        value=0.75,
        keep=0.92,
        thoughts=(0.15, 0.40, 0.45),
    ),
    shape=Shape(hidden_size=96, layers=2, heads=3, kv_heads=1, intermediate_size=256),
    steps=400,
    batch=32,
    learning_rate=4e-3,
    warmup=40,
    weight_decay=0.01,
    gradient_clip=1.0,
    embedding_std=0.1,
    value_weight=4.0,
    threads=1,
)

ARITHMETIC = Recipe(
    mixture=arithmetic.Mixture(digit=0.9, check=0.65),
    shape=Shape(hidden_size=96, layers=2, heads=3, kv_heads=1, intermediate_size=256),
    steps=400,
    batch=64,
    learning_rate=4e-3,
    warmup=40,
    weight_decay=0.01,
    gradient_clip=1.0,
    embedding_std=0.1,
    value_weight=1.0,
    threads=1,
)

"""The warm start: a small Qwen2 trained on flawed answers, saved as an ordinary Hugging Face checkpoint.

Deterministic: the examples, the initial weights and the number of threads are fixed by the recipe and the seed. Two
machines with different vector units may still differ in the last bits, as they would for any training.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from harness.engines.local.policy import Policy, PolicySpec, pack, save_policy
from harness.pocket.recipe import Recipe
from harness.pocket.tokenizer import PocketTokenizer

MAX_POSITIONS = 512
# First word of a seed sequence, unlike those of training and evaluation prompts.
WARM_START_STREAM = 3

# One question and its answer of the warm start.
DrawPair = Callable[[np.random.Generator], tuple[str, str]]


def build_checkpoint(
    folder: Path,
    recipe: Recipe,
    seed: int,
    tokenizer: PocketTokenizer,
    draw_pair: DrawPair,
    value_tokens: Sequence[int],
    title: str,
) -> None:
    """Train and write the checkpoint and its tokenizer into ``folder``."""
    with _threads(recipe.threads):
        policy = _initial(recipe, seed, tokenizer)
        weights = torch.ones(policy.spec.vocab_size)
        weights[list(value_tokens)] = recipe.value_weight
        _train(policy, recipe, seed, tokenizer, draw_pair, weights, title)
    save_policy(policy, tokenizer, folder)


def _initial(recipe: Recipe, seed: int, tokenizer: PocketTokenizer) -> Policy:
    shape = recipe.shape
    spec = PolicySpec(
        vocab_size=-(-tokenizer.size // 8) * 8,
        hidden_size=shape.hidden_size,
        layers=shape.layers,
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        intermediate_size=shape.intermediate_size,
        max_positions=MAX_POSITIONS,
    )
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(spec, generator)
    with torch.no_grad():
        policy.embedding.normal_(0.0, recipe.embedding_std, generator=generator)
    return policy


def _train(
    policy: Policy,
    recipe: Recipe,
    seed: int,
    tokenizer: PocketTokenizer,
    draw_pair: DrawPair,
    weights: Tensor,
    title: str,
) -> None:
    """``weights`` [vocabulary]: how much a token counts in the loss, a weighted mean."""
    parameters = list(policy.parameters())
    optimizer = torch.optim.AdamW(
        parameters, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=recipe.weight_decay, foreach=True
    )
    generator = np.random.default_rng([WARM_START_STREAM, seed])
    for step in _with_progress(recipe.steps, title):
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * _schedule(step, recipe)
        pairs = [draw_pair(generator) for _ in range(recipe.batch)]
        batch = pack(
            [tokenizer.encode_prompt(question) for question, _ in pairs],
            [tokenizer.encode_response(answer) for _, answer in pairs],
            range(recipe.batch),
        )
        loss = F.cross_entropy(policy.logits(policy.hidden_packed(batch)), batch.targets, weight=weights)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, recipe.gradient_clip)
        optimizer.step()


def _schedule(step: int, recipe: Recipe) -> float:
    """Factor of the learning rate: up over the warm-up, then down to zero after the last step."""
    return min((step + 1) / recipe.warmup, (recipe.steps - step) / (recipe.steps - recipe.warmup), 1.0)


def _with_progress(steps: int, title: str) -> Iterator[int]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=False) as progress:
        yield from progress.track(range(steps), description=title)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)

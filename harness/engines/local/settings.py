"""What a run asks of this engine, checked before anything starts; random streams; a deterministic torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import numpy as np
import torch

from harness.config import RunConfig
from harness.engines.reward_kl import sees_reward_kl as sees_reward_kl
from harness.errors import UserError, nearest

RATIOS = ("token", "sequence")
REDUCTIONS = ("token_mean", "sequence_mean", "constant_length")
LOSS_KL_TYPES = ("none", "mse", "k3")
FILTERS = ("none", "sum", "any_channel")
REWARD_KL_METHODS = ("none", "summed")

STREAMS = ("rollout", "evaluation")


def check(config: RunConfig) -> None:
    """UserError naming the key, its value and the remedy, for anything this engine cannot do."""
    if config.model.kind != "pocket" or config.data.source != "generated":
        raise UserError(
            f"engine=local trains generated tasks with a pocket model, not model={config.model.name} on "
            f"data={config.data.name}; set scale=pocket, or engine=verl for these"
        )
    for key in config.engine.options:
        raise UserError(f"unknown key engine.options.{key}: engine=local has no options; remove it")
    training, loss = config.training, config.policy_loss
    for key, value, valid in (
        ("policy_loss.ratio", loss.ratio, RATIOS),
        ("policy_loss.reduction", loss.reduction, REDUCTIONS),
        ("training.loss_kl_type", training.loss_kl_type, LOSS_KL_TYPES),
        ("training.filter", training.filter, FILTERS),
        ("training.reward_kl_methods", training.reward_kl_methods, REWARD_KL_METHODS),
    ):
        if value not in valid:
            raise UserError(f"{key}={value} is unknown: {nearest(value, valid)}")
    for key, number, lowest in (
        ("seed", config.seed, 0),
        ("training.steps", training.steps, 1),
        ("training.updates_per_step", training.updates_per_step, 1),
        ("training.max_response_tokens", training.max_response_tokens, 1),
        ("training.evaluate_every", training.evaluate_every, 1),
        ("training.evaluation_prompts", training.evaluation_prompts, 1),
        ("output.checkpoint_every", config.output.checkpoint_every, 1),
        ("output.keep_checkpoints", config.output.keep_checkpoints, 1),
        ("output.rollouts_every", config.output.rollouts_every, 0),
    ):
        if number < lowest:
            raise UserError(f"{key}={number} must be at least {lowest}")
    for key, figure in (
        ("training.learning_rate", training.learning_rate),
        ("training.gradient_clip", training.gradient_clip),
        ("training.temperature", training.temperature),
    ):
        if not 0.0 < figure < float("inf"):
            raise UserError(f"{key}={figure} must be a finite number above 0")
    if not 0.0 < training.top_p <= 1.0:
        raise UserError(f"training.top_p={training.top_p} must be above 0 and at most 1")
    if not (0.0 <= loss.clip_low < 1.0 and loss.clip_high >= 0.0):
        raise UserError(
            f"policy_loss.clip_low={loss.clip_low}, clip_high={loss.clip_high}: low must be in [0, 1), high at least 0"
        )
    if training.loss_kl_coefficient and training.loss_kl_type == "none":
        raise UserError(
            f"training.loss_kl_coefficient={training.loss_kl_coefficient} needs training.loss_kl_type mse or k3"
        )
    if training.filter != "none":
        if not training.candidate_prompts or training.candidate_prompts < 1:
            raise UserError(
                f"training.filter={training.filter} needs training.candidate_prompts, the groups in a generation batch"
            )
        if not training.max_generation_batches or training.max_generation_batches < 1:
            raise UserError(
                f"training.filter={training.filter} needs training.max_generation_batches, the most batches of a step"
            )


def stream(seed: int, step: int, purpose: str) -> torch.Generator:
    """The random numbers of one purpose at one step; independent of all others and of the device."""
    sequence = np.random.SeedSequence([seed, step, STREAMS.index(purpose)])
    return torch.Generator().manual_seed(int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1)))


def device(name: str) -> torch.device:
    """The torch device of ``engine.device``; UserError if there is none of that name here."""
    kind = name.partition(":")[0]
    if kind not in ("cpu", "cuda"):
        raise UserError(f"engine.device={name} is unknown: {nearest(kind, ('cpu', 'cuda'))}")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError(f"engine.device={name}: this machine has no usable GPU; set engine.device=cpu")
    try:
        return torch.empty(0, device=name).device
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"engine.device={name} cannot be used ({reason}); set engine.device=cpu") from error


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """One CPU thread and deterministic kernels inside, the previous settings afterwards."""
    # cuBLAS reads this when the first product runs; without it torch refuses deterministic mode on a GPU.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    threads, mode = torch.get_num_threads(), torch.get_deterministic_debug_mode()
    filled = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.set_num_threads(1)
    # The same switch as use_deterministic_algorithms, which first imports the compiler (two seconds).
    torch.set_deterministic_debug_mode("error")
    # Nothing here reads memory it has not written, and filling it costs a tenth of a step.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_deterministic_debug_mode(mode)
        torch.utils.deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]

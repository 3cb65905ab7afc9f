"""One step's optimisation: mini-batches of whole groups, the clipped objective, one AdamW update each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from harness.config import RunConfig
from harness.engines.local.generation import Experience, TrainingFailed, diverged
from harness.engines.local.objective import clipped_surrogate, kl_penalty, token_statistics, token_weights
from harness.engines.local.optimizer import AdamW
from harness.engines.local.policy import PackedBatch, Policy, pack


@dataclass(frozen=True)
class MiniBatch:
    """Some groups of a step, laid out. ``responses`` are their rows in the step, ``old`` and ``reference`` [M] the
    tokens' log-probabilities when sampled and under the frozen start of the run, ``lengths`` [N] tokens of each
    response."""

    packed: PackedBatch
    responses: slice
    old: Tensor
    reference: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class UpdateStatistics:
    """Means over the updates of a step. ``gradient_norm`` is taken before clipping."""

    loss: float
    entropy: float
    gradient_norm: float
    clip_fraction: float
    loss_kl: float | None


def mini_batches(experience: Experience, reference: Policy, config: RunConfig) -> list[MiniBatch]:
    """Split the groups, in order, into ``updates_per_step`` mini-batches of equal size (fewer, or sizes that differ
    by one group, when a filter kept fewer groups than wanted)."""
    updates = min(config.training.updates_per_step, len(experience.prompts))
    batches = []
    for prompts in np.array_split(np.arange(len(experience.prompts)), updates):
        first, last = int(prompts[0]), int(prompts[-1]) + 1
        rows = slice(first * experience.group_size, last * experience.group_size)
        packed = pack(
            experience.prompt_ids[first:last],
            experience.responses[rows],
            experience.prompt_of[rows] - first,
            reference.device,
        )
        with torch.inference_mode():
            log_probabilities = reference.log_probabilities(packed, config.training.temperature)
        batches.append(
            MiniBatch(
                packed=packed,
                responses=rows,
                old=torch.cat(experience.log_probabilities[rows]),
                reference=log_probabilities.clone(),
                lengths=torch.from_numpy(experience.lengths[rows]).to(reference.device),
            )
        )
    return batches


def reference_kl(batches: Sequence[MiniBatch]) -> np.ndarray:
    """[N] sum over the tokens of a response of log pi_old - log pi_ref, the estimate verl calls ``kl``."""
    sums = []
    for batch in batches:
        difference = (batch.old - batch.reference).double()
        zeros = torch.zeros(len(batch.lengths), dtype=torch.float64, device=difference.device)
        sums.append(zeros.index_add(0, batch.packed.response, difference).cpu().numpy())
    return np.concatenate(sums)


def update(
    policy: Policy,
    optimizer: AdamW,
    batches: Sequence[MiniBatch],
    advantages: np.ndarray,
    config: RunConfig,
    step: int,
) -> UpdateStatistics:
    """One optimiser update a mini-batch. ``advantages`` [N]. Raises TrainingFailed for a loss or gradient not
    finite."""
    if not np.isfinite(advantages).all():
        raise TrainingFailed(f"step {step}: method {config.method.name} gave advantages that are not finite")
    values = torch.from_numpy(advantages).float().to(policy.device)
    rows = []
    for number, batch in enumerate(batches, start=1):
        row = _update(policy, optimizer, batch, values[batch.responses], config)
        for name, value in zip(("loss", "gradient norm"), (row[0], row[2]), strict=True):
            if not math.isfinite(value):
                raise diverged(f"step {step}, update {number} of {len(batches)}: the {name} is {value}", config)
        rows.append(row)
    means = np.array(rows, dtype=np.float64).mean(axis=0).tolist()
    loss_kl = means[4] if config.training.loss_kl_type != "none" else None
    return UpdateStatistics(means[0], means[1], means[2], means[3], loss_kl)


def _update(policy: Policy, optimizer: AdamW, batch: MiniBatch, advantages: Tensor, config: RunConfig) -> list[float]:
    """Loss, entropy, gradient norm, clip fraction and KL loss of one update."""
    training, packed = config.training, batch.packed
    logits = policy.logits(policy.hidden_packed(packed))
    if training.temperature != 1.0:
        logits = logits / training.temperature
    log_probability, entropy = token_statistics(logits, packed.targets)
    weights = token_weights(config.policy_loss.reduction, batch.lengths, packed.response, training.max_response_tokens)
    surrogate = clipped_surrogate(
        log_probability, batch.old, advantages, packed.response, batch.lengths, weights, config.policy_loss
    )
    loss = surrogate.loss
    if training.entropy_coefficient:
        loss = loss - training.entropy_coefficient * (weights * entropy).sum()
    kl = torch.zeros(())
    if training.loss_kl_type != "none":
        kl = (weights * kl_penalty(training.loss_kl_type, log_probability, batch.reference)).sum()
        loss = loss + training.loss_kl_coefficient * kl
    optimizer.zero_gradients()
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), training.gradient_clip)
    figures = [float(figure.detach()) for figure in (loss, entropy.mean(), norm, surrogate.clip_fraction, kl)]
    if math.isfinite(figures[0]) and math.isfinite(figures[2]):
        optimizer.step()
    return figures

"""A step's experience: prompts, a group of responses to each, their rewards, and which groups are trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from harness.aggregation import group_filter
from harness.config import RunConfig
from harness.engines.local.policy import Policy, sample
from harness.engines.local.settings import stream
from harness.engines.local.task import Prompt, Task
from harness.errors import UserError
from harness.rewards.batch import score_batch

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class TrainingFailed(RuntimeError):
    """Training cannot go on: a reward, loss or gradient that is not finite. Names the step and what it was."""


def diverged(what: str, config: RunConfig) -> TrainingFailed:
    """The error of a policy whose numbers are no longer finite."""
    rate = config.training.learning_rate
    return TrainingFailed(f"{what}; the policy has diverged, lower training.learning_rate={rate}")


@dataclass(frozen=True)
class Experience:
    """N = B x G responses, prompt-major: B prompts in order, the G responses of a prompt next to each other.

    ``responses`` token ids with EOS; ``log_probabilities`` of these tokens when they were sampled; ``texts`` without
    EOS; ``channels`` rewards by channel [N]; ``failures`` by kind [N].
    """

    prompts: list[Prompt]
    prompt_ids: list[list[int]]
    group_size: int
    responses: list[list[int]]
    log_probabilities: list[torch.Tensor]
    texts: list[str]
    channels: dict[str, Floats]
    failures: dict[str, Flags]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """[N] tokens of each response, EOS included."""
        return np.array([len(response) for response in self.responses], dtype=np.int64)

    @property
    def prompt_of(self) -> npt.NDArray[np.int64]:
        """[N] index of each response's prompt, also its group's label."""
        return np.repeat(np.arange(len(self.prompts)), self.group_size)

    def rewards(self, channels: Sequence[str]) -> Floats:
        """[N, K] in the order of ``channels``."""
        return np.stack([self.channels[name] for name in channels], axis=1)

    def select(self, prompts: Sequence[int]) -> Experience:
        """The groups of these prompts, in this order."""
        rows = [prompt * self.group_size + member for prompt in prompts for member in range(self.group_size)]
        return Experience(
            prompts=[self.prompts[index] for index in prompts],
            prompt_ids=[self.prompt_ids[index] for index in prompts],
            group_size=self.group_size,
            responses=[self.responses[row] for row in rows],
            log_probabilities=[self.log_probabilities[row] for row in rows],
            texts=[self.texts[row] for row in rows],
            channels={name: values[rows] for name, values in self.channels.items()},
            failures={kind: flags[rows] for kind, flags in self.failures.items()},
        )


@dataclass(frozen=True)
class StepExperience:
    """``generated``: all of it. ``trained``: the groups the filter kept (at most those needed), None if it kept none.
    ``kept``: groups that passed. ``batches``: generation batches used."""

    generated: Experience
    trained: Experience | None
    kept: int
    batches: int


def experience(
    policy: Policy, task: Task, config: RunConfig, step: int, prompts: Sequence[Prompt], generator: torch.Generator
) -> Experience:
    """Sample and score one group for each prompt."""
    training = config.training
    tokenizer = task.tokenizer
    prompt_ids = [tokenizer.encode_prompt(prompt.text) for prompt in prompts]
    longest = max(range(len(prompts)), key=lambda index: len(prompt_ids[index]))
    if len(prompt_ids[longest]) > training.max_prompt_tokens:
        raise UserError(
            f"prompt {prompts[longest].uid!r} has {len(prompt_ids[longest])} tokens, more than "
            f"training.max_prompt_tokens={training.max_prompt_tokens}; raise it"
        )
    try:
        rollout = sample(
            policy,
            prompt_ids,
            config.group_size,
            generator,
            eos_id=tokenizer.eos_id,
            max_new_tokens=training.max_response_tokens,
            temperature=training.temperature,
            top_p=training.top_p,
        )
    except FloatingPointError as error:
        raise diverged(f"step {step}: {error}", config) from error
    lengths = rollout.lengths.tolist()
    rows = rollout.tokens.tolist()
    responses = [row[:length] for row, length in zip(rows, lengths, strict=True)]
    ended = [response[:-1] if response[-1] == tokenizer.eos_id else response for response in responses]
    texts = [tokenizer.decode(ids) for ids in ended]
    references = [prompt.reference for prompt in prompts for _ in range(config.group_size)]
    scores = score_batch(
        task.reward_task,
        texts,
        references,
        lengths,
        length_limit=task.length_limit,
        max_response_tokens=training.max_response_tokens,
    )
    for name, values in scores.channels.items():
        if not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values))[0])
            raise TrainingFailed(
                f"step {step}: channel {name} gave reward {values[row]} for response {row} "
                f"(prompt {prompts[row // config.group_size].uid!r}); rewards must be finite"
            )
    return Experience(
        prompts=list(prompts),
        prompt_ids=prompt_ids,
        group_size=config.group_size,
        responses=responses,
        log_probabilities=[row[:length] for row, length in zip(rollout.log_probabilities, lengths, strict=True)],
        texts=texts,
        channels=scores.channels,
        failures=scores.failures,
    )


def collect(policy: Policy, task: Task, config: RunConfig, step: int) -> StepExperience:
    """The experience of ``step``.

    Without a filter: ``config.prompts_per_step`` groups. With one: generation batches of ``candidate_prompts`` groups
    until enough have passed or ``max_generation_batches`` are used up; the first that passed are trained on, fewer
    than wanted when the cap ends it (arXiv 2503.14476, section 3.2).
    """
    training, wanted = config.training, config.prompts_per_step
    generator = stream(config.seed, step, "rollout")
    if training.filter == "none":
        batch = experience(policy, task, config, step, task.training_prompts(config.seed, step, wanted), generator)
        return StepExperience(batch, batch, wanted, 1)
    size, most = training.candidate_prompts or wanted, training.max_generation_batches or 1
    candidates = list(task.training_prompts(config.seed, step, size * most))
    channels = list(config.task.channels)
    batches: list[Experience] = []
    kept: list[int] = []
    while len(kept) < wanted and len(batches) < most:
        first = len(batches) * size
        batch = experience(policy, task, config, step, candidates[first : first + size], generator)
        passed = group_filter(batch.rewards(channels), batch.prompt_of, channels, training.filter)
        kept += (np.flatnonzero(passed) + first).tolist()
        batches.append(batch)
    generated = _join(batches)
    trained = generated.select(kept[:wanted]) if kept else None
    return StepExperience(generated, trained, len(kept), len(batches))


def _join(batches: list[Experience]) -> Experience:
    if len(batches) == 1:
        return batches[0]
    first = batches[0]
    return Experience(
        prompts=[item for batch in batches for item in batch.prompts],
        prompt_ids=[item for batch in batches for item in batch.prompt_ids],
        group_size=first.group_size,
        responses=[item for batch in batches for item in batch.responses],
        log_probabilities=[item for batch in batches for item in batch.log_probabilities],
        texts=[item for batch in batches for item in batch.texts],
        channels={name: np.concatenate([batch.channels[name] for batch in batches]) for name in first.channels},
        failures={kind: np.concatenate([batch.failures[kind] for batch in batches]) for kind in first.failures},
    )

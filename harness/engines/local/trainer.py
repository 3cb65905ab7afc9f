"""The training loop: collect, aggregate, update, log, evaluate, checkpoint; and how a run continues.

What a step does is a function of (seed, step), the policy, the optimiser's state and the count of responses, which is
all a checkpoint holds. Order at the end of a step: metrics, checkpoint, evaluation. A run killed in between repeats
what its last checkpoint does not cover and comes to the same numbers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from harness.aggregation import Aggregation
from harness.config import RunConfig
from harness.engines.local import checkpoints, settings
from harness.engines.local.advantages import Aggregator
from harness.engines.local.checkpoints import Checkpoint
from harness.engines.local.generation import Experience, StepExperience, TrainingFailed, collect, experience
from harness.engines.local.optimizer import AdamW
from harness.engines.local.policy import load_policy, save_policy
from harness.engines.local.task import Task
from harness.engines.local.update import UpdateStatistics, mini_batches, reference_kl, update
from harness.errors import UserError
from harness.store.files import make_folder, write_atomically

if TYPE_CHECKING:
    from harness.store import Run

__all__ = ["EXPORT", "TrainingFailed", "train", "train_on"]

BENCHMARK = "pocket"
EXPORT = "huggingface"
"""Folder under ``run.checkpoints`` with the trained policy as a Hugging Face checkpoint."""

Value = float | int | bool | None


def train(config: RunConfig, run: Run, should_stop: Callable[[], bool] | None = None) -> None:
    """See :func:`harness.engines.local.train`."""
    settings.check(config)
    device = settings.device(config.engine.device)
    from harness.pocket import pocket_task

    with settings.deterministic():
        _Trainer(config, run, pocket_task(config), device).run_steps(should_stop or _never)


def train_on(config: RunConfig, run: Run, task: Task, should_stop: Callable[[], bool] | None = None) -> None:
    """:func:`train` with a task of the caller's."""
    settings.check(config)
    with settings.deterministic():
        _Trainer(config, run, task, settings.device(config.engine.device)).run_steps(should_stop or _never)


def _never() -> bool:
    return False


@dataclass(frozen=True)
class _Outcome:
    """What a step's metrics are made of; ``aggregation`` is of the raw channels, None when no group was trained on."""

    experience: StepExperience
    aggregation: Aggregation | None
    before_filter: Aggregation | None
    kl: float | None
    updates: UpdateStatistics | None


class _Trainer:
    def __init__(self, config: RunConfig, run: Run, task: Task, device: torch.device) -> None:
        self.config, self.run, self.task = config, run, task
        self.channels = list(config.task.channels)
        self.aggregate = Aggregator(config)
        self.reference = load_policy(task.checkpoint, device)
        self.reference.requires_grad_(False)
        self.policy = load_policy(task.checkpoint, device)
        longest = config.training.max_prompt_tokens + config.training.max_response_tokens
        if longest > self.policy.spec.max_positions:
            raise UserError(
                f"training.max_prompt_tokens + training.max_response_tokens = {longest} exceed the "
                f"{self.policy.spec.max_positions} positions of {task.checkpoint}; lower one of them"
            )
        self.optimizer = AdamW(self.policy.parameters(), config.training.learning_rate, config.training.weight_decay)
        self.responses_generated = 0
        self.step = 0
        self.start = hashlib.sha256((task.checkpoint / "model.safetensors").read_bytes()).hexdigest()
        self._restore(device)
        self._record()

    def _restore(self, device: torch.device) -> None:
        checkpoint = checkpoints.latest(self.run.checkpoints, device, self.run.log)
        if checkpoint is None:
            return
        if checkpoint.start != self.start:
            raise UserError(
                f"{self.run.checkpoints}: training began with other weights than {self.task.checkpoint} holds now "
                f"(the warm start was built anew); delete {self.run.path} to train the run from its start"
            )
        self.policy.load_state_dict(checkpoint.policy)
        self.optimizer.load_state_dict(checkpoint.optimizer)
        self.step, self.responses_generated = checkpoint.step, checkpoint.responses_generated
        self.run.log(f"continuing after step {self.step}")

    def _record(self) -> None:
        """Hashes of the model and of the data in the manifest; the data's is that of the held-out prompts."""
        prompts = self.task.evaluation_prompts(self.config.training.evaluation_prompts)
        content = json.dumps([[prompt.text, prompt.reference] for prompt in prompts])
        self.run.record("model_sha256", self.start)
        self.run.record("data_sha256", hashlib.sha256(content.encode()).hexdigest())

    def run_steps(self, should_stop: Callable[[], bool]) -> None:
        steps, every = self.config.training.steps, self.config.output.checkpoint_every
        if self.step >= steps:
            self._export()
        self._evaluate()
        stopping = should_stop()
        while self.step < steps and not stopping:
            started = time.perf_counter()
            outcome = self._train_step(self.step + 1)
            self.step += 1
            self.responses_generated += len(outcome.experience.generated.texts)
            self._dump(outcome.experience.generated)
            row = self._metrics(outcome)
            row["seconds"] = round(time.perf_counter() - started, 4)
            self.run.metrics.append(self.step, row)
            stopping = should_stop()
            if self.step % every == 0 or self.step in (steps, *self.config.evaluation.at) or stopping:
                self._checkpoint()
            if self.step == steps:
                self._export()
            self._evaluate()

    def _train_step(self, step: int) -> _Outcome:
        config = self.config
        collected = collect(self.policy, self.task, config, step)
        before = self.aggregate(collected.generated, step) if config.training.filter != "none" else None
        trained = collected.trained
        if trained is None:
            self.run.log(f"step {step}: the filter kept no group, the policy stays as it is")
            return _Outcome(collected, None, before, None, None)
        batches = mini_batches(trained, self.reference, config)
        kl = reference_kl(batches)
        aggregation = self.aggregate(trained, step)
        advantages = aggregation.advantages
        if settings.sees_reward_kl(config):
            advantages = self.aggregate(trained, step, config.training.reward_kl_coefficient * kl).advantages
        statistics = update(self.policy, self.optimizer, batches, advantages, config, step)
        return _Outcome(collected, aggregation, before, float(kl.sum() / trained.lengths.sum()), statistics)

    def _metrics(self, outcome: _Outcome) -> dict[str, Value]:
        generated = outcome.experience.generated
        row: dict[str, Value] = {f"reward/{name}": float(generated.channels[name].mean()) for name in self.channels}
        row["reward/score"] = float(generated.rewards(self.channels).sum(axis=1).mean())
        row |= {f"failure/{kind}": float(flags.mean()) for kind, flags in generated.failures.items()}
        row |= self.aggregate.metrics(outcome.aggregation)
        if outcome.before_filter is not None:
            before = outcome.before_filter.density
            row |= {f"density_before_filter/{name}": before[name] for name in self.channels}
            row["filter/kept"] = outcome.experience.kept
            row["filter/needed"] = self.config.prompts_per_step
            row["filter/generation_batches"] = outcome.experience.batches
        if self.config.task.name == "maths" and self.task.length_limit is not None:
            row["exceed"] = float((generated.lengths > self.task.length_limit).mean())
        drift = getattr(self.task, "drift", None)
        if drift is not None:
            row |= {f"flaw/{kind}": float(share) for kind, share in drift(generated.texts).items()}
        row["response_length"] = float(generated.lengths.mean())
        row["kl"] = outcome.kl
        updates = outcome.updates
        row["entropy"] = None if updates is None else updates.entropy
        row["grad_norm"] = None if updates is None else updates.gradient_norm
        row["clip_fraction"] = None if updates is None else updates.clip_fraction
        row["loss"] = None if updates is None else updates.loss
        if self.config.training.loss_kl_type != "none":
            row["loss_kl"] = None if updates is None else updates.loss_kl
        row["responses_generated"] = self.responses_generated
        return row

    def _evaluate(self) -> None:
        """One response to each held-out prompt, at the temperature of training. Every evaluation of a seed draws the
        same random numbers, so that steps and methods differ by their policies alone."""
        training = self.config.training
        if self.step % training.evaluate_every and self.step != training.steps:
            return
        prompts = list(self.task.evaluation_prompts(training.evaluation_prompts))
        single = _single(self.config)
        batch = experience(
            self.policy, self.task, single, self.step, prompts, settings.stream(self.config.seed, 0, "evaluation")
        )
        metrics = {f"reward/{name}": float(batch.channels[name].mean()) for name in self.channels}
        metrics["reward/score"] = float(batch.rewards(self.channels).sum(axis=1).mean())
        metrics |= {f"failure/{kind}": float(flags.mean()) for kind, flags in batch.failures.items()}
        metrics["response_length"] = float(batch.lengths.mean())
        results = {
            "n": len(prompts),
            "metrics": metrics,
            "temperature": training.temperature,
            "top_p": training.top_p,
            "samples": 1,
        }
        self.run.write_evaluation(BENCHMARK, self.step, results, None)

    def _checkpoint(self) -> None:
        state = Checkpoint(
            self.step, self.start, self.responses_generated, self.policy.state_dict(), self.optimizer.state_dict()
        )
        config = self.config
        checkpoints.save(self.run.checkpoints, state, config.output.keep_checkpoints, config.evaluation.at)

    def _export(self) -> None:
        def write(folder: Any) -> None:
            save_policy(self.policy, self.task.tokenizer, folder)

        checkpoints.replace_folder(self.run.checkpoints / EXPORT, write)

    def _dump(self, batch: Experience) -> None:
        every = self.config.output.rollouts_every
        if every == 0 or self.step % every:
            return
        lines = []
        lengths, groups = batch.lengths.tolist(), batch.prompt_of.tolist()
        attempt = self.run.status().attempts
        for row, text in enumerate(batch.texts):
            prompt = batch.prompts[groups[row]]
            rewards = {name: float(batch.channels[name][row]) for name in self.channels}
            line = {
                "step": self.step,
                "uid": prompt.uid,
                "input": prompt.text,
                "output": text,
                "gts": prompt.reference,
                "score": sum(rewards.values()),
                "attempt": attempt,
                **rewards,
                "response_tokens": lengths[row],
            }
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        make_folder(self.run.rollouts)
        write_atomically(self.run.rollouts / f"{self.step}.jsonl", "".join(lines).encode())


def _single(config: RunConfig) -> RunConfig:
    return dataclasses.replace(config, group_size=1)

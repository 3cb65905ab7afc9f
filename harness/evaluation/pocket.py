"""The pocket benchmark: the held-out prompts of a generated task, one response each, scored by the task's rewards.

For a stored run it repeats what the engine measured while training, from the checkpoint: the same prompts, random
numbers and decoding, hence the same figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.config import RunConfig
from harness.errors import UserError
from harness.evaluation.benchmarks import POCKET
from harness.evaluation.outputs import Content
from harness.evaluation.sampling import Request, Sampling, seed_of
from harness.pocket.task import PocketTask, Prompt
from harness.rewards.batch import score_batch
from harness.store import Run

if TYPE_CHECKING:
    from harness.evaluation.backends.policy import PolicyBackend

BENCHMARK = POCKET
PROMPTS = "pocket: the query as the user turn"


def sampling(config: RunConfig) -> Sampling:
    training = config.training
    return Sampling(training.temperature, training.top_p, training.max_response_tokens, None, 1, config.seed)


def prompts(task: PocketTask, config: RunConfig) -> list[Prompt]:
    return list(task.evaluation_prompts(config.training.evaluation_prompts))


def requests(asked: Sequence[Prompt], seed: int) -> list[Request]:
    keys = [(prompt.uid, 0, 0, 0) for prompt in asked]
    return [
        Request(key, ({"role": "user", "content": prompt.text},), seed_of(seed, key))
        for key, prompt in zip(keys, asked, strict=True)
    ]


def backend(task: PocketTask, run: Run, step: int, block: int) -> PolicyBackend:
    """The policy of a step of a run: step 0, an export, the last step's, or a kept checkpoint of the local engine."""
    import torch

    from harness.engines.local.policy import load_policy
    from harness.evaluation.backends.policy import PolicyBackend

    exported = run.checkpoints / "exports" / str(step)
    final = run.checkpoints / "huggingface"
    kept = run.checkpoints / f"step_{step:06d}.pt"
    if step == 0:
        policy = load_policy(task.checkpoint)
    elif exported.is_dir():
        policy = load_policy(exported)
    elif step == run.config.training.steps and final.is_dir():
        policy = load_policy(final)
    elif kept.is_file():
        policy = load_policy(task.checkpoint)
        try:
            policy.load_state_dict(torch.load(kept, map_location="cpu", weights_only=True)["policy"])
        except Exception as error:
            raise UserError(
                f"{kept}: cannot be read ({' '.join(str(error).split())[:200]}); choose another step"
            ) from error
    else:
        steps = sorted(int(path.stem.removeprefix("step_")) for path in Path(run.checkpoints).glob("step_*.pt"))
        raise UserError(
            f"run {run.run_id} has no checkpoint of step {step}; there are {', '.join(map(str, [0, *steps]))} "
            "(a run keeps those of evaluate_at and the last output.keep_checkpoints)"
        )
    return PolicyBackend(policy, task.tokenizer, seed=run.config.seed, block=block)


def score(
    task: PocketTask, config: RunConfig, asked: Sequence[Prompt], content: Content
) -> tuple[dict[str, Any], pd.DataFrame]:
    """(results, one row a prompt)."""
    wanted = requests(asked, config.seed)
    pairs = [(prompt, content.answer(request)) for prompt, request in zip(asked, wanted, strict=True)]
    found = [(prompt, generation) for prompt, generation in pairs if generation is not None]
    lengths = [generation.tokens for _, generation in found]
    scores = score_batch(
        task.reward_task,
        [generation.text for _, generation in found],
        [prompt.reference for prompt, _ in found],
        lengths,
        length_limit=task.length_limit,
        max_response_tokens=config.training.max_response_tokens,
    )
    table = pd.DataFrame({"question": [prompt.uid for prompt, _ in found], "tokens": lengths})
    metrics: dict[str, float | None] = {}
    for name, values in scores.channels.items():
        table[f"reward/{name}"] = values
        metrics[f"reward/{name}"] = float(values.mean()) if len(found) else None
    table["reward/score"] = sum(scores.channels.values())
    metrics["reward/score"] = float(table["reward/score"].mean()) if len(found) else None
    for kind, flags in scores.failures.items():
        table[f"failure/{kind}"] = flags
        metrics[f"failure/{kind}"] = float(flags.mean()) if len(found) else None
    metrics["response_length"] = float(table["tokens"].mean()) if len(found) else None
    missing = len(asked) - len(found)
    return {
        "n": len(found),
        "metrics": metrics,
        "temperature": config.training.temperature,
        "top_p": config.training.top_p,
        "samples": 1,
        "complete": not missing,
        "missing": missing,
        "cells": {BENCHMARK: {"questions": len(asked), "outputs": len(found), "missing": missing}},
    }, table

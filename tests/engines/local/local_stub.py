"""A task of a dozen tokens for testing the trainer: copy the digit of the prompt into a box, briefly.

Scored by the ``maths`` rewards. A fresh policy already gets some of both channels, so that every step has a signal.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from harness.config import (
    ChannelConfig,
    DataConfig,
    EngineConfig,
    EvaluationConfig,
    MethodConfig,
    ModelConfig,
    OutputConfig,
    PolicyLossConfig,
    RunConfig,
    TaskConfig,
    TrainingConfig,
    WandbConfig,
)
from harness.engines.local.policy import Policy, PolicySpec, save_policy
from harness.engines.local.trainer import train_on
from harness.store import Run, RunStore

WORDS = ["<pad>", "<eos>", "<sep>", *(f"\\boxed{{{digit}}}" for digit in range(3)), "0", "1", "2", " so", " it", " is"]
SPEC = PolicySpec(len(WORDS), 32, layers=2, heads=2, kv_heads=1, intermediate_size=48, head_size=16, max_positions=64)


class StubTokenizer:
    eos_id = 1
    pad_id = 0

    def encode_prompt(self, text: str) -> list[int]:
        return [*(WORDS.index(word) for word in text.split()), 2]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(WORDS[index] for index in ids)

    def save_pretrained(self, folder: str | Path) -> None:
        Path(folder, "tokenizer_config.json").write_text(json.dumps({"words": WORDS}), encoding="utf-8")


@dataclass(frozen=True)
class StubPrompt:
    uid: str
    text: str
    reference: str


class StubTask:
    reward_task = "maths"
    length_limit = 4
    tokenizer = StubTokenizer()

    def __init__(self, folder: Path) -> None:
        self.checkpoint = folder / "start"
        if not self.checkpoint.exists():
            save_policy(Policy(SPEC, torch.Generator().manual_seed(5)), self.tokenizer, self.checkpoint)

    def training_prompts(self, seed: int, step: int, count: int) -> list[StubPrompt]:
        return self._prompts(np.random.default_rng([1, seed, step]), count)

    def evaluation_prompts(self, count: int) -> list[StubPrompt]:
        return self._prompts(np.random.default_rng([2]), count)

    def _prompts(self, generator: np.random.Generator, count: int) -> list[StubPrompt]:
        rows = [generator.integers(0, 3, size=generator.integers(1, 4)).tolist() for _ in range(count)]
        return [StubPrompt(f"q{i}", " ".join(map(str, row)), str(row[-1])) for i, row in enumerate(rows)]


CHANNELS = ("correctness", "length")

LOSSES = {
    "ppo_clip": PolicyLossConfig("ppo_clip", 0.2, 0.2, "token", "token_mean"),
    "dapo": PolicyLossConfig("dapo", 0.2, 0.28, "token", "token_mean"),
    "gspo": PolicyLossConfig("gspo", 3e-4, 4e-4, "sequence", "sequence_mean"),
    "dr_grpo": PolicyLossConfig("dr_grpo", 0.2, 0.2, "token", "constant_length"),
}


def stub_config(
    method: str = "gdpo",
    *,
    seed: int = 0,
    group_size: int = 4,
    loss: str = "ppo_clip",
    checkpoint_every: int = 3,
    rollouts_every: int = 0,
    evaluate_at: Sequence[int] = (),
    device: str = "cpu",
    **training: object,
) -> RunConfig:
    """A run of the stub task; ``training`` overrides keys of :class:`TrainingConfig`."""
    values: dict[str, object] = {
        "steps": 6,
        "responses_per_step": 32,
        "updates_per_step": 2,
        "learning_rate": 3e-3,
        "weight_decay": 0.0,
        "gradient_clip": 1.0,
        "entropy_coefficient": 0.001,
        "reward_kl_coefficient": 0.001,
        "reward_kl_methods": "summed",
        "loss_kl_coefficient": 0.0,
        "loss_kl_type": "none",
        "temperature": 1.0,
        "top_p": 1.0,
        "max_prompt_tokens": 8,
        "max_response_tokens": 10,
        "evaluate_every": 3,
        "evaluation_prompts": 6,
        "filter": "none",
        "candidate_prompts": None,
        "max_generation_batches": None,
        **training,
    }
    return RunConfig(
        seed=seed,
        group_size=group_size,
        method=MethodConfig(method, None, {}),
        task=TaskConfig(
            "maths", {"correctness": ChannelConfig(0.0, 1.0), "length": ChannelConfig(0.0, 1.0)}, "response"
        ),
        data=DataConfig("stub", "generated", 4, root=None),
        model=ModelConfig("stub", "pocket", None, 0),
        policy_loss=LOSSES[loss],
        training=TrainingConfig(**values),  # type: ignore[arg-type]
        engine=EngineConfig("local", device, 1, 0, {}),
        evaluation=EvaluationConfig(["pocket"], list(evaluate_at), {}),
        scale="pocket",
        study=None,
        output=OutputConfig("runs", checkpoint_every, 1, rollouts_every, WandbConfig("disabled", "dara", None)),
    )


def one_attempt(folder: Path, config: RunConfig) -> Run:
    """Train, or continue, the stub run under ``folder``; what a worker does, in this process."""
    run = RunStore(folder / "runs").create(config)
    with run.lock("test"):
        run.begin_attempt({})
        train_on(config, run, StubTask(folder))
        run.end_attempt("finished", None)
    return run


def comparable(run: Run) -> list[dict[str, object]]:
    """The metrics of a run without what may differ between two executions."""
    return [{key: row[key] for key in row if key not in ("attempt", "seconds")} for row in run.metrics.rows()]

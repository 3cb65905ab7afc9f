"""Run configurations for tests, built without Hydra."""

from __future__ import annotations

from typing import Any

from harness.compose import run_config_from_mapping
from harness.config import RunConfig


def small_config(
    *,
    steps: int = 5,
    seed: int = 0,
    method: str = "gdpo",
    engine: str = "local",
    task: str = "tool_calling",
    options: dict[str, Any] | None = None,
) -> RunConfig:
    channels = {
        "tool_calling": {"correctness": {"low": -3.0, "high": 3.0}, "format": {"low": 0.0, "high": 1.0}},
        "maths": {"correctness": {"low": 0.0, "high": 1.0}, "length": {"low": 0.0, "high": 1.0}},
    }[task]
    return run_config_from_mapping(
        {
            "seed": seed,
            "group_size": 4,
            "method": {"name": method, "file": None},
            "task": {"name": task, "channels": channels, "normalization": "token"},
            "data": {"name": "pocket_tool_calling", "source": "generated", "length_limit": None, "root": None},
            "model": {"name": "pocket", "kind": "pocket", "path": None, "warm_start_seed": 0},
            "policy_loss": {
                "name": "ppo_clip",
                "clip_low": 0.2,
                "clip_high": 0.2,
                "ratio": "token",
                "reduction": "token_mean",
            },
            "training": {
                "steps": steps,
                "responses_per_step": 16,
                "updates_per_step": 1,
                "learning_rate": 3e-4,
                "weight_decay": 0.0,
                "gradient_clip": 1.0,
                "entropy_coefficient": 0.001,
                "reward_kl_coefficient": 0.001,
                "reward_kl_methods": "summed",
                "loss_kl_coefficient": 0.0,
                "loss_kl_type": "none",
                "temperature": 1.0,
                "top_p": 1.0,
                "max_prompt_tokens": 64,
                "max_response_tokens": 56,
                "evaluate_every": 10,
                "evaluation_prompts": 128,
                "filter": "none",
                "candidate_prompts": None,
                "max_generation_batches": None,
            },
            "engine": {
                "name": engine,
                "device": "cpu",
                "nodes": 1,
                "gpus_per_node": 0,
                "options": options or {},
            },
            "scale": "pocket",
            "study": None,
            "output": {
                "runs": "runs",
                "checkpoint_every": 10,
                "keep_checkpoints": 1,
                "rollouts_every": 0,
                "wandb": {"mode": "disabled", "project": "dara", "entity": None},
            },
        }
    )

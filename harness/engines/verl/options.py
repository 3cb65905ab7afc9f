"""``engine.options`` of this engine: how a run is placed on the hardware, no part of what is computed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from harness.binding import bind
from harness.config import RunConfig
from harness.errors import UserError


@dataclass(frozen=True)
class Options:
    """memory_fraction: share of a GPU's memory for the rollout engine.  max_sequences: it decodes at once.
    tokens_per_gpu: of a micro-batch (dynamic batching).  keep_exports: newest Hugging Face exports kept, None: all.
    rollout: verl's rollout engine.  reward_workers: Ray actors for rewards (on a CPU there are none).
    agent_workers: Ray actors for the agent loops.
    ray_address: of a running Ray cluster to join, None: start one here.
    """

    memory_fraction: float
    max_sequences: int
    tokens_per_gpu: int
    keep_exports: int | None
    rollout: str
    reward_workers: int
    agent_workers: int
    ray_address: str | None


_TOOL_CALLING = Options(
    memory_fraction=0.6,  # arXiv 2610.00574, Table 6
    max_sequences=256,
    tokens_per_gpu=16384,
    keep_exports=None,
    rollout="vllm",
    reward_workers=8,
    agent_workers=8,
    ray_address=None,
)
_MATHS = dataclasses.replace(_TOOL_CALLING, memory_fraction=0.9)  # Table 9, the 1.5B model
_MATHS_LARGE = dataclasses.replace(_MATHS, memory_fraction=0.8, max_sequences=160)  # Table 9, 4B and 7B
_CPU = dataclasses.replace(_TOOL_CALLING, rollout="hf_cpu", reward_workers=1, agent_workers=1, max_sequences=1024)

_SMALL_MATHS_MODELS = ("r1-1.5b",)


def options_of(config: RunConfig) -> Options:
    """The paper's placement for the run's task and model, with the keys of ``engine.options`` over it.

    Raises UserError naming an unknown key and the nearest valid one, or a value that cannot be.
    """
    if config.engine.device == "cpu":
        base = _CPU
    elif config.task.name != "maths":
        base = _TOOL_CALLING
    else:
        base = _MATHS if config.model.name in _SMALL_MATHS_MODELS else _MATHS_LARGE
    options = bind(Options, {**dataclasses.asdict(base), **config.engine.options}, "engine.options")
    if not 0.0 < options.memory_fraction < 1.0:
        raise UserError(f"engine.options.memory_fraction={options.memory_fraction} must lie between 0 and 1")
    for key in ("max_sequences", "tokens_per_gpu", "reward_workers", "agent_workers"):
        if getattr(options, key) < 1:
            raise UserError(f"engine.options.{key}={getattr(options, key)} must be at least 1")
    longest = config.training.max_prompt_tokens + config.training.max_response_tokens
    if options.tokens_per_gpu < longest:
        raise UserError(
            f"engine.options.tokens_per_gpu={options.tokens_per_gpu} is less than the longest sequence ({longest} "
            f"tokens); give at least {longest}"
        )
    return options

"""What a run is: the dataclasses every key of ``conf/`` is bound to, and the identity of a run.

Values live in ``conf/*.yaml`` alone; a dataclass gives each key its type. The parameters of a method are the one
exception: their defaults live in the signature of the method itself, so that ``aggregate()`` and a run agree.

A run is one fully resolved :class:`RunConfig`. Fields marked ``identity=False`` say where and how it is executed or
stored, not what is computed; all others enter the run's hash.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

IDENTITY_SCHEMA = 1


def _outside_identity() -> Any:
    """A field that may differ between two executions of the same run."""
    return field(metadata={"identity": False})


@dataclass(frozen=True)
class ChannelConfig:
    """One reward channel and the closed interval its values lie in."""

    low: float
    high: float


@dataclass(frozen=True)
class TaskConfig:
    """What is rewarded. ``channels`` keeps its order; ``normalization`` is the final one, ``token`` or ``response``."""

    name: str
    channels: dict[str, ChannelConfig]
    normalization: str


@dataclass(frozen=True)
class DataConfig:
    """Where prompts come from: ``generated`` (pocket) or ``hub``. ``length_limit``: words of thinking (tool calling) or
    tokens of the response (maths). ``root``: the folder of the published data (``python -m harness data``), None for
    the one in the harness's cache; which data they are is checked there, so where they lie is no part of the run."""

    name: str
    source: str
    length_limit: int | None
    root: str | None = _outside_identity()


@dataclass(frozen=True)
class MethodConfig:
    """An aggregation method and all of its parameters (defaults filled in from the method's signature).

    A method of the user's is known by its ``file`` and what that held when the run was composed, ``file_sha256``: the
    content is part of the run, where the file lies is not."""

    name: str
    file: str | None = field(metadata={"identity": False})
    parameters: dict[str, Any]
    file_sha256: str | None = field(default=None, metadata={"identity_name": "file"})


@dataclass(frozen=True)
class ModelConfig:
    """``kind: pocket`` is built on first use; ``kind: huggingface`` is loaded from ``path`` (hub name or folder)."""

    name: str
    kind: str
    path: str | None
    warm_start_seed: int | None


@dataclass(frozen=True)
class PolicyLossConfig:
    """Clipped objective: ``ratio`` token or sequence; ``reduction`` token_mean, sequence_mean or constant_length."""

    name: str
    clip_low: float
    clip_high: float
    ratio: str
    reduction: str


@dataclass(frozen=True)
class TrainingConfig:
    """The numbers of the optimisation. Lengths in tokens; ``responses_per_step`` = prompts x group size."""

    steps: int
    responses_per_step: int
    updates_per_step: int
    learning_rate: float
    weight_decay: float
    gradient_clip: float
    entropy_coefficient: float
    reward_kl_coefficient: float
    reward_kl_methods: str
    loss_kl_coefficient: float
    loss_kl_type: str
    temperature: float
    top_p: float
    max_prompt_tokens: int
    max_response_tokens: int
    evaluate_every: int
    evaluation_prompts: int
    filter: str
    candidate_prompts: int | None
    max_generation_batches: int | None


@dataclass(frozen=True)
class EngineConfig:
    """Which engine trains. ``options`` are the engine's own keys, checked by the engine."""

    name: str
    device: str
    nodes: int = _outside_identity()
    gpus_per_node: int = _outside_identity()
    options: dict[str, Any] = _outside_identity()


@dataclass(frozen=True)
class EvaluationConfig:
    """``benchmarks`` on the checkpoints of the steps ``at`` (0: the model before training), which are kept for it.
    ``options``: further settings of ``python -m harness evaluate``, such as backend and device."""

    benchmarks: list[str]
    at: list[int]
    options: dict[str, Any]


@dataclass(frozen=True)
class WandbConfig:
    mode: str
    project: str
    entity: str | None


@dataclass(frozen=True)
class OutputConfig:
    """Where a run is stored and what is kept of it."""

    runs: str
    checkpoint_every: int
    keep_checkpoints: int
    rollouts_every: int
    wandb: WandbConfig


@dataclass(frozen=True)
class RunConfig:
    """One run, fully resolved."""

    seed: int
    group_size: int
    method: MethodConfig
    task: TaskConfig
    data: DataConfig
    model: ModelConfig
    policy_loss: PolicyLossConfig
    training: TrainingConfig
    engine: EngineConfig
    evaluation: EvaluationConfig = _outside_identity()
    scale: str = _outside_identity()
    study: str | None = _outside_identity()
    output: OutputConfig = _outside_identity()

    @property
    def prompts_per_step(self) -> int:
        return self.training.responses_per_step // self.group_size

    @functools.cached_property
    def digest(self) -> str:
        """See :func:`config_hash`; a launcher asks for it several times for each of thousands of runs."""
        content = {"schema": IDENTITY_SCHEMA, "channel_order": list(self.task.channels), **identity(self)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]


def identity(config: Any) -> dict[str, Any]:
    """The semantic part of a configuration as plain JSON types, recursively, without the fields outside identity."""
    result: dict[str, Any] = {}
    for item in dataclasses.fields(config):
        if not item.metadata.get("identity", True):
            continue
        result[item.metadata.get("identity_name", item.name)] = _plain(getattr(config, item.name))
    return result


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return identity(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def config_hash(config: RunConfig) -> str:
    """First 10 hex digits of the SHA-256 of the identity and the schema version; key order does not matter, channel
    order does (it is part of the rewards' layout)."""
    return config.digest


def run_id(config: RunConfig) -> str:
    """``<task>-<model>-<method>-g<group size>-s<seed>-<hash>``, also the name of the run's folder."""
    parts = [
        config.task.name,
        config.model.name,
        config.method.name,
        f"g{config.group_size}",
        f"s{config.seed}",
    ]
    return "-".join(part.replace("/", "_") for part in parts) + "-" + config_hash(config)

"""The options of the SLURM launcher (``conf/hydra/launcher/slurm.yaml``), bound to types and checked."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.binding import bind
from harness.config import RunConfig
from harness.errors import UserError

WHERE = "hydra.launcher"
RESERVED = ("array", "dependency", "error", "job-name", "open-mode", "output", "requeue", "signal")
"""sbatch options that the launcher sets itself."""

_OWN_KEYS = {
    "partition": "partition",
    "account": "account",
    "qos": "qos",
    "constraint": "constraint",
    "time": "time",
    "mem": "mem_gb",
    "cpus-per-task": "cpus_per_task",
    "nodes": "nodes",
    "gpus-per-node": "gpus_per_node",
}
_TIME = re.compile(r"(\d+-)?\d{1,3}(:\d{1,2}){0,2}")


@dataclass(frozen=True)
class AfterTraining:
    """What a job asks for that does not train; None: what training asks for (of GPUs: what the work uses)."""

    partition: str | None
    time: Any
    gpus_per_node: int | None
    cpus_per_task: int | None
    mem_gb: float | None


@dataclass(frozen=True)
class SlurmOptions:
    """``time``: minutes, or SLURM's own forms (``"12:00:00"``, ``"2-00"``). ``nodes`` and ``gpus_per_node``: None takes
    the engine's. ``sbatch``: further sbatch options by their long name. ``evaluation`` and ``collecting``: what the
    jobs after training ask for instead."""

    partition: str | None
    account: str | None
    qos: str | None
    constraint: str | None
    time: Any
    nodes: int | None
    gpus_per_node: int | None
    cpus_per_task: int
    mem_gb: float | None
    sbatch: dict[str, Any] | None
    setup: list
    python: str | None
    array_parallelism: int
    signal_seconds: int
    prepare: bool
    require_clean: bool
    evaluation: AfterTraining
    collect: bool
    collecting: AfterTraining

    @property
    def minutes(self) -> float:
        """The time limit in minutes."""
        return parse_minutes(str(self.time))


@dataclass(frozen=True)
class Resources:
    """What one job asks for; runs with equal resources share an array."""

    nodes: int
    gpus_per_node: int


def read_options(mapping: Mapping[str, Any]) -> SlurmOptions:
    """Raises :class:`UserError` naming the key, its value and the remedy."""
    options = bind(SlurmOptions, dict(mapping), WHERE)
    _check_numbers(options, WHERE)
    for name in ("evaluation", "collecting"):
        _check_numbers(after_training(options, getattr(options, name)), f"{WHERE}.{name}")
        gpus = getattr(options, name).gpus_per_node
        if gpus is not None and gpus < 0:
            raise UserError(f"{WHERE}.{name}.gpus_per_node={gpus} must not be negative")
    for line in options.setup:
        if not isinstance(line, str):
            raise UserError(f"{WHERE}.setup: each entry must be a shell command (text), not {line!r}")
    _check_sbatch(options.sbatch or {})
    return options


def after_training(options: SlurmOptions, changes: AfterTraining) -> SlurmOptions:
    """The options of a job that does not train."""
    given = {
        name: value
        for name, value in dataclasses.asdict(changes).items()
        if value is not None and name != "gpus_per_node"
    }
    return dataclasses.replace(options, **given)


def evaluation_gpus(settings: Mapping[str, Any]) -> int:
    """GPUs that an evaluation uses. ``settings``: of ``python -m harness evaluate``; vLLM takes ``tensor_parallel``,
    transformers one if its device is no CPU."""
    if settings.get("backend") == "vllm":
        return int(settings.get("tensor_parallel") or 1)
    return 0 if str(settings.get("device") or "cpu") == "cpu" else 1


def evaluation_resources(options: SlurmOptions, settings: Mapping[str, Any]) -> Resources:
    """What the job of an evaluation asks for."""
    asked = options.evaluation.gpus_per_node
    return Resources(1, evaluation_gpus(settings) if asked is None else asked)


def _check_numbers(options: SlurmOptions, where: str) -> None:
    for name, least in (("cpus_per_task", 1), ("array_parallelism", 1), ("signal_seconds", 10)):
        if getattr(options, name) < least:
            raise UserError(f"{where}.{name}={getattr(options, name)} must be at least {least}")
    if options.mem_gb is not None and options.mem_gb <= 0:
        raise UserError(f"{where}.mem_gb={options.mem_gb} must be positive, or null for the partition's own")
    if isinstance(options.time, bool) or not _TIME.fullmatch(str(options.time)) or options.minutes <= 0:
        raise UserError(f'{where}.time={options.time!r} must be minutes (90) or a time like "12:00:00" or "2-00:00"')
    if options.minutes * 60 <= options.signal_seconds:
        raise UserError(
            f"{WHERE}.signal_seconds={options.signal_seconds} leaves nothing of {where}.time={options.time}; a job "
            f"saves that long before its end"
        )


def resources(options: SlurmOptions, config: RunConfig) -> Resources:
    nodes = config.engine.nodes if options.nodes is None else options.nodes
    gpus = config.engine.gpus_per_node if options.gpus_per_node is None else options.gpus_per_node
    if nodes < 1 or gpus < 0:
        raise UserError(f"nodes={nodes}, gpus_per_node={gpus}: a job needs at least one node and no negative GPUs")
    return Resources(nodes, gpus)


def parse_minutes(text: str) -> float:
    """SLURM's time forms: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    days, dash, rest = text.partition("-") if "-" in text else ("0", "", text)
    parts = [int(part) for part in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, (minutes, seconds) = 0, (*parts, 0)[:2]
    return int(days) * 1440 + hours * 60 + minutes + seconds / 60


def _check_sbatch(extra: Mapping[str, Any]) -> None:
    for key, value in extra.items():
        name = key.lstrip("-").replace("_", "-")
        if name in RESERVED:
            raise UserError(f"{WHERE}.sbatch.{key} is set by the launcher itself; remove it")
        if name in _OWN_KEYS:
            raise UserError(f"{WHERE}.sbatch.{key}: give {WHERE}.{_OWN_KEYS[name]} instead")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
            raise UserError(f"{WHERE}.sbatch.{key} is no long option of sbatch")
        if value is not None and not isinstance(value, str | int | float | bool):
            raise UserError(f"{WHERE}.sbatch.{key}={value!r} must be a text, a number, true or null")
        if isinstance(value, str) and "\n" in value:
            raise UserError(f"{WHERE}.sbatch.{key}: a value is one line")

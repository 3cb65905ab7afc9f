"""The keys of ``python -m harness evaluate``, their types and their defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from harness.errors import UserError, nearest

STAGES = ("all", "generate", "score")
BACKENDS = ("transformers", "vllm")


@dataclass(frozen=True)
class Options:
    """None: the protocol's or the subject's own value."""

    benchmark: str
    run: str | None = None
    model: str | None = None
    endpoint: str | None = None
    step: str | None = None
    limit: int | None = None
    stage: str = "all"
    runs: str = "runs"
    out: str | None = None
    backend: str = "transformers"
    device: str = "cpu"
    dtype: str = "float32"
    batch: int = 8
    tensor_parallel: int = 1
    concurrency: int = 64
    tries: int = 6
    timeout: float = 3600.0
    extra: dict[str, Any] | None = None
    model_name: str | None = None
    samples: int | None = None
    seed: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_new_tokens: int | None = None
    categories: str | None = None
    data_root: str | None = None
    sandbox: str = "auto"

    def __post_init__(self) -> None:
        subjects = [name for name in ("run", "model", "endpoint") if getattr(self, name)]
        if len(subjects) != 1:
            raise UserError(f"give exactly one of run=, model= and endpoint=, not {' and '.join(subjects) or 'none'}")
        for name, valid in (("stage", STAGES), ("backend", BACKENDS)):
            if getattr(self, name) not in valid:
                raise UserError(f"{name}={getattr(self, name)} is unknown: {nearest(getattr(self, name), valid)}")
        for name in ("limit", "samples", "max_new_tokens", "tries", "concurrency", "batch"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name}={value} must be at least 1")
        if self.temperature is not None and not 0.0 <= self.temperature < 10.0:
            raise UserError(f"temperature={self.temperature} must be in [0, 10)")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise UserError(f"top_p={self.top_p} must be above 0 and at most 1")


def parse(words: Sequence[str]) -> Options:
    """``KEY=VALUE`` words to options. UserError names an unknown key or a value of the wrong kind."""
    kinds = {field.name: str(field.type) for field in fields(Options)}
    names = {name.replace("data_root", "data.root"): name for name in kinds}
    values: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or key not in names:
            raise UserError(f"unknown setting {word!r}: {nearest(key, names)}")
        if names[key] in values:
            raise UserError(f"{key}= is given twice; give it once")
        values[names[key]] = _value(key, text, kinds[names[key]])
    if "benchmark" not in values:
        raise UserError("benchmark= is missing; e.g. benchmark=pocket, benchmark=maths or benchmark=bfcl_v4")
    return Options(**values)


SET_BY_A_RUN = ("benchmark", "run", "model", "endpoint", "step", "stage", "runs", "out")


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """``KEY=VALUE`` words that :func:`parse` reads back; settings that are None are left out."""
    return [
        f"{key}={json.dumps(value) if isinstance(value, Mapping) else value}"
        for key, value in settings.items()
        if value is not None
    ]


def check_further(settings: Mapping[str, Any], where: str) -> None:
    """UserError naming the key when ``settings`` cannot stand beside ``run=``, ``benchmark=`` and ``step=``."""
    for key in settings:
        if key in SET_BY_A_RUN:
            raise UserError(f"{where}.{key} is set by the run itself; remove it")
    try:
        parse(["benchmark=any", "run=any", *words_of(settings)])
    except UserError as error:
        raise UserError(f"{where}: {error}") from error


def _value(key: str, text: str, kind: str) -> Any:
    try:
        if kind.startswith("int"):
            return int(text)
        if kind.startswith("float"):
            return float(text)
        if kind.startswith("dict"):
            content = json.loads(text)
            if not isinstance(content, dict):
                raise ValueError("not an object")
            return content
    except ValueError as error:
        wanted = {"i": "a whole number", "f": "a number", "d": "a JSON object"}[kind[0]]
        raise UserError(f"{key}={text} must be {wanted}") from error
    return text

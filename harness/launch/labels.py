"""Short names for the runs of one matrix: the keys in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.config import RunConfig, identity, run_id

_ALWAYS = ("method", "seed")
_NAMES = {
    "task.name": "task",
    "model.name": "model",
    "policy_loss.name": "policy_loss",
    "data.name": "data",
    "engine.name": "engine",
}
_FOLLOWS = ("task.", "data.", "model.", "policy_loss.", "engine.")


def labels(configs: Sequence[RunConfig]) -> dict[str, dict[str, str]]:
    """Run id -> {column: value}: method and seed, then every other key whose value differs between the runs."""
    by_name = {run_id(config): config for config in configs}
    flat = {name: _flatten(identity(config)) for name, config in by_name.items()}
    columns = [*_ALWAYS, *_varying(list(flat.values()))]
    result = {}
    for name, config in by_name.items():
        values = flat[name]
        row = {"method": config.method.name, "seed": str(config.seed)}
        row.update({_NAMES.get(key, key): _text(values.get(key)) for key in columns if key not in _ALWAYS})
        result[name] = row
    return result


def _varying(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys with more than one value. Of a group such as ``task`` that differs as a whole the name says it all;
    parameters that only one method has are told by the method's name."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    found = [key for key in keys if len({repr(row.get(key)) for row in rows}) > 1 and key != "seed"]
    by_name = {prefix for prefix in _FOLLOWS if f"{prefix}name" in found}
    kept = []
    for key in found:
        prefix = key.split(".")[0] + "."
        if key == "method.name" or (prefix in by_name and not key.endswith(".name")):
            continue
        if key.startswith("method.") and not _differs_within_method(key, rows):
            continue
        kept.append(key)
    return kept


def _differs_within_method(key: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    seen: dict[Any, set[str]] = {}
    for row in rows:
        seen.setdefault(row["method.name"], set()).add(repr(row.get(key)))
    return any(len(values) > 1 for values in seen.values())


def _flatten(content: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(content, Mapping):
        return {prefix: content}
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat.update(_flatten(value, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _text(value: Any) -> str:
    return "-" if value is None else str(value)

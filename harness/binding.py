"""Plain mappings to dataclasses, with an error that names the key, the value and the nearest valid key."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from harness.errors import UserError, nearest

T = TypeVar("T")


def bind(cls: type[T], mapping: Any, where: str) -> T:
    """Build the dataclass ``cls`` from ``mapping``; ``where`` prefixes the keys in messages (``"training"``).

    Every field must be present and no other key may be. Integers are accepted where a float is asked for; booleans are
    never numbers; nothing else is converted. Raises :class:`UserError`.
    """
    if not isinstance(mapping, Mapping):
        raise UserError(f"{where or 'the configuration'} must be a mapping of keys, not {mapping!r}")
    fields = {item.name: item for item in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = _type_hints(cls)  # type: ignore[arg-type]
    prefix = f"{where}." if where else ""
    for key in mapping:
        if key not in fields:
            raise UserError(f"unknown key {prefix}{key}: {nearest(str(key), fields)}")
    missing = [name for name in fields if name not in mapping]
    if missing:
        raise UserError(f"missing key {prefix}{missing[0]}: give it a value in conf/ or on the command line")
    return cls(**{name: _value(hints[name], mapping[name], prefix + name) for name in fields})


@functools.cache
def _type_hints(cls: type) -> dict[str, Any]:
    """Evaluating annotations takes milliseconds; a matrix binds thousands of configurations."""
    return typing.get_type_hints(cls)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        options = typing.get_args(hint)
        if value is None and type(None) in options:
            return None
        return _value(next(option for option in options if option is not type(None)), value, where)
    if dataclasses.is_dataclass(hint):
        return bind(typing.cast(type, hint), value, where)
    if origin is dict:
        if not isinstance(value, Mapping):
            raise UserError(f"{where} must be a mapping, not {value!r}")
        item = typing.get_args(hint)[1]
        return {str(key): _value(item, entry, f"{where}.{key}") for key, entry in value.items()}
    if origin is list:
        if not isinstance(value, list):
            raise UserError(f"{where}={value} must be a list, e.g. {where}=[{value}]")
        item = typing.get_args(hint)[0]
        return [_value(item, entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint in (int, float) and isinstance(value, bool):
        raise UserError(f"{where}={value} must be {_NAMES[hint]}")
    if isinstance(value, hint):
        return value
    raise UserError(f"{where}={value} must be {_NAMES.get(hint, hint.__name__)}")


_NAMES = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}

"""Ground truth as answers: what a perfect model would have said. For the doctor's check and for tests."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_THOUGHT = "<think> I should use the appropriate tools. </think>"
CLOSING = f"{_THOUGHT}\n<response> Done. </response>"


@dataclass(frozen=True)
class Truth:
    """``value`` as the benchmark's file has it. ``parameters``: function -> its schema
    (single-turn), or the names of its parameters (multi-turn)."""

    category: str
    value: Any
    parameters: Mapping[str, Any]

    @property
    def multi_turn(self) -> bool:
        return self.category.startswith("multi_turn")

    def calls(self) -> list[dict[str, Any]]:
        """``[{"name", "parameters"}]`` of a single-turn ground truth: parameters that may be left out (an empty text is
        among their values) are, of the others the first acceptable value counts."""
        return [
            {"name": name, "parameters": self._values(name, values)}
            for call in self.value
            for name, values in call.items()
        ]

    def decoded(self) -> Any:
        """What the checkers get of a perfect answer."""
        if self.multi_turn:
            return [[list(turn)] if turn else [] for turn in self.value]
        return [{call["name"]: call["parameters"]} for call in self.calls()]

    def answers(self) -> list[list[str]]:
        """The outputs of a perfect model in ToolRL's format, by turn and step."""
        if not self.multi_turn:
            return [[tool_calls(self.calls())]]
        return [
            [tool_calls([parsed_call(call, self.parameters) for call in turn]), CLOSING] if turn else [CLOSING]
            for turn in self.value
        ]

    def _values(self, function: str, values: Mapping[str, list[Any]]) -> dict[str, Any]:
        schema = self.parameters.get(function, {})
        required = schema.get("required", [])
        chosen = {}
        for name, options in values.items():
            known = [option for option in options if option != ""] or options
            if known and (name in required or "" not in options):
                kind = schema.get("properties", {}).get(name, {})
                chosen[name] = self._written(_plain(known[0]), kind)
        return chosen

    def _written(self, value: Any, kind: Mapping[str, Any]) -> Any:
        if self.category == "simple_java":
            return java(value, kind.get("type", "any"), kind.get("items", {}).get("type", ""))
        if self.category == "simple_javascript":
            return value if isinstance(value, str) else json.dumps(value)
        return value


def tool_calls(calls: Sequence[Mapping[str, Any]]) -> str:
    """One output that makes these calls."""
    lines = "\n".join(json.dumps(call) for call in calls)
    return f"{_THOUGHT}\n<tool_call>\n{lines}\n</tool_call>"


def parsed_call(call: str, signatures: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """``name(value, key=value)`` -> ``{"name", "parameters"}``; ``signatures`` names the arguments without a key."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call):
        raise ValueError(f"{call} is no call")
    name = ast.unparse(node.func)
    known = signatures[name] if node.args else []
    parameters = {key: ast.literal_eval(value) for key, value in zip(known, node.args, strict=False)}
    parameters |= {str(item.arg): ast.literal_eval(item.value) for item in node.keywords}
    return {"name": name, "parameters": parameters}


def java(value: Any, kind: str, inner: str = "") -> str:
    """A value as Java source text, which is what the Java category wants for every parameter."""
    if kind in ("ArrayList", "Array") and isinstance(value, list):
        items = ", ".join(java(item, inner) if inner not in ("String", "") else json.dumps(item) for item in value)
        if kind == "Array":
            return "new Object[]{" + ", ".join(java(item, inner) for item in value) + "}"
        return f"new ArrayList<>(Arrays.asList({items}))" if value else "new ArrayList<>()"
    if kind == "HashMap" and isinstance(value, dict):
        puts = " ".join(f'put("{name}", {json.dumps(item)});' for name, item in value.items())
        return "new HashMap<>() {{ " + puts + " }}" if value else "new HashMap<>()"
    if isinstance(value, str):
        return value
    return json.dumps(value) + {"long": "L", "float": "f"}.get(kind, "")


def _plain(value: Any) -> Any:
    """The values of an object are lists of acceptable ones in turn."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {}
    for name, options in value.items():
        if not isinstance(options, list):
            found[name] = options
            continue
        known = [option for option in options if option != ""]
        if known:
            found[name] = _plain(known[0])
    return found

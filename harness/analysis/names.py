"""The published record's labels, in the harness's words."""

from __future__ import annotations

from typing import Final

METHODS: Final = {
    "base": "base",
    "grpo": "grpo",
    "gdpo": "gdpo",
    "dvao": "dvao",
    "gd2po_hard": "gd2po_hard",
    "gd2po-hard": "gd2po_hard",
    "dara": "dara_sym",
    "dara_sym": "dara_sym",
    "dara-sym": "dara_sym",
    "rdgdpo_positive": "dara_asym",
    "dara_asym": "dara_asym",
    "dara-asym": "dara_asym",
    "gdpo_saw": "saw",
    "rvpo": "rvpo",
    "static-asym (w = 5)": "static_asym",
    "static-sym (w = 5)": "static_sym",
}
MODELS: Final = {
    "1.5B": "qwen2.5-1.5b",
    "3B": "qwen2.5-3b",
    "Qwen2.5-1.5B-Instruct": "qwen2.5-1.5b",
    "DeepSeek-R1-1.5B": "r1-1.5b",
    "DeepSeek-R1-7B": "r1-7b",
    "Qwen3-4B-Instruct": "qwen3-4b",
    "Qwen3-4B-Thinking": "qwen3-4b-thinking",
    "1.5b": "r1-1.5b",
    "4b": "qwen3-4b",
    "7b": "r1-7b",
}


def method(label: str) -> str:
    """Harness name of a published method label (GD²PO-Hard and GD2PO-Hard are one). Raises KeyError if unknown."""
    return METHODS[label.replace("²", "2").lower()]


def model(label: str) -> str:
    return MODELS[label]

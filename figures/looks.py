"""The name, colour and marker of each method and the name of each model: the same in every figure and table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Look:
    label: str
    color: str
    marker: str


METHODS: Final[dict[str, Look]] = {
    "grpo": Look("GRPO", "#777777", "s"),
    "gdpo": Look("GDPO", "#0072B2", "o"),
    "dara_sym": Look("DARA-Sym", "#E69F00", "^"),
    "dara_asym": Look("DARA-Asym", "#CC3311", "D"),
    "static_sym": Look("Static-Sym", "#B8860B", "^"),
    "static_asym": Look("Static-Asym", "#7A2A10", "D"),
    "dvao": Look("DVAO", "#009E73", "v"),
    "gd2po_hard": Look("GD\N{SUPERSCRIPT TWO}PO-Hard", "#AA4499", "P"),
    "gd2po_snr": Look("GD\N{SUPERSCRIPT TWO}PO-SNR", "#882255", "X"),
    "saw": Look("SAW", "#56B4E9", "<"),
    "saw_grpo": Look("SAW-GRPO", "#88CCEE", ">"),
    "sa_mrpo": Look("SA-MRPO", "#332288", "h"),
    "rvpo": Look("RVPO", "#117733", "p"),
    "mo_grpo": Look("MO-GRPO", "#999933", "*"),
    "dr_grpo": Look("Dr. GRPO", "#444444", "d"),
    "base": Look("base", "#000000", "_"),
}
_OTHER: Final = ("#6699CC", "#994455", "#997700", "#EE99AA")

MODELS: Final[dict[str, str]] = {
    "qwen2.5-1.5b": "Qwen2.5-1.5B",
    "qwen2.5-3b": "Qwen2.5-3B",
    "r1-1.5b": "DeepSeek-R1-1.5B",
    "r1-7b": "DeepSeek-R1-7B",
    "qwen3-4b": "Qwen3-4B-Instruct",
    "qwen3-4b-thinking": "Qwen3-4B-Thinking",
    "pocket": "pocket",
}


def look(method: str) -> Look:
    """The look of a method; one that is not known (a user's own) gets a colour that depends on its name alone."""
    if method in METHODS:
        return METHODS[method]
    return Look(method, _OTHER[sum(method.encode()) % len(_OTHER)], "8")


def in_order(methods: Any) -> list[str]:
    """Known methods in the order of :data:`METHODS`, then the others by name."""
    known = list(METHODS)
    return sorted(set(methods), key=lambda name: (known.index(name) if name in known else len(known), name))

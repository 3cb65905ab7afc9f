"""The weights that DARA gives its channels over training, with the cap."""

from __future__ import annotations

from figures.picture import Picture
from figures.training import POCKET, Measure, Setting, Words, training_picture
from harness.analysis.results import Results


def build(results: Results) -> Picture:
    return training_picture(
        results,
        Words(
            "fig_weights",
            "Density weights over training",
            "The dotted line is the cap of 5; weights of 1 mean that a channel is the densest, or dead.",
        ),
        [
            Setting("Qwen2.5-1.5B-Instruct", {"task": "tool_calling", "scale": "paper", "model": "qwen2.5-1.5b"}),
            Setting(POCKET, {"task": "tool_calling", "group_size": 4, "scale": "pocket"}),
            Setting("pocket, maths", {"task": "maths", "scale": "pocket"}),
        ],
        [
            Measure("weight/correctness", "weight of correctness", reference=5.0, limits=(0.8, 5.3)),
            Measure("weight/format", "weight of format", reference=5.0, limits=(0.8, 5.3)),
            Measure("weight/length", "weight of length", reference=5.0, limits=(0.8, 5.3)),
        ],
        methods=("dara_sym", "dara_asym"),
        width=2.7,
    )

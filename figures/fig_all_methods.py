"""Every method of the field on the pocket task: rewards and densities over training."""

from __future__ import annotations

from figures.picture import Picture
from figures.training import Measure, Setting, Words, training_picture
from harness.analysis.results import Results


def build(results: Results) -> Picture:
    return training_picture(
        results,
        Words(
            "fig_all_methods",
            "Every method on the pocket tool-calling task",
            "Two and three rewards. Marked: first step with a reward of 0.8 (open: never).",
        ),
        [
            Setting("pocket, two rewards", {"task": "tool_calling", "group_size": 4, "scale": "pocket"}),
            Setting("pocket, three rewards", {"task": "tool_calling_three", "group_size": 4, "scale": "pocket"}),
        ],
        [
            Measure("reward/correctness", "correctness reward", limits=(-3.1, 3.1)),
            Measure("reward/format", "format reward", level=0.8, limits=(-0.03, 1.05)),
            Measure("reward/length", "length reward", level=0.8, limits=(-0.03, 1.05)),
        ],
        width=3.9,
    )

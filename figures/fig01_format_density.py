"""Figure 1: format reward and density of the format reward over training, tool calling."""

from __future__ import annotations

from figures.picture import Picture
from figures.training import POCKET, Measure, Setting, Words, training_picture
from harness.analysis.results import Results

METHODS = ("grpo", "gdpo", "dara_sym", "dara_asym")


def build(results: Results) -> Picture:
    published: dict[str, object] = {"study": "tool_calling_main", "model": "qwen2.5-1.5b"}
    paper: dict[str, object] = {"task": "tool_calling", "group_size": 4, "scale": "paper", "model": "qwen2.5-1.5b"}
    pocket: dict[str, object] = {"task": "tool_calling", "group_size": 4, "scale": "pocket"}
    return training_picture(
        results,
        Words(
            "fig01_format_density",
            "Format reward and its active-group density",
            "Marked: the step at which a run of ours first reaches a format reward of 0.8 (open: never); ticks on the "
            "dotted line: the same of each published run.",
            "Figure 1",
        ),
        [Setting("Qwen2.5-1.5B-Instruct", paper, published), Setting(POCKET, pocket)],
        [
            Measure("reward/format", "format reward", level=0.8, limits=(-0.03, 1.05)),
            Measure("density/format", "format density", limits=(-0.03, 1.0)),
        ],
        methods=METHODS,
    )

"""Maths training: correctness and length compliance before filtering, with the static weight as a control."""

from __future__ import annotations

from figures.looks import MODELS
from figures.picture import Picture
from figures.training import Measure, Setting, Words, training_picture
from harness.analysis.results import Results

METHODS = ("grpo", "gdpo", "dvao", "gd2po_hard", "dara_sym", "dara_asym", "static_sym", "static_asym")


def build(results: Results) -> Picture:
    settings = [
        Setting(
            MODELS[model],
            {"task": "maths", "scale": "paper", "model": model},
            {"task": "maths", "model": model},
        )
        for model in ("r1-1.5b", "qwen3-4b", "r1-7b")
    ]
    settings.append(Setting("pocket arithmetic", {"task": "maths", "scale": "pocket"}))
    return training_picture(
        results,
        Words(
            "fig_maths_training",
            "Maths: correctness and length compliance during training",
            "The published training curves are not in the public record. Marked: first step with 99 % compliance "
            "(open: never).",
            "maths training curves",
        ),
        settings,
        [
            Measure("reward/correctness", "correctness", limits=(-0.03, 1.05)),
            Measure("reward/length", "length compliance", level=0.99, limits=(-0.03, 1.05)),
        ],
        methods=METHODS,
        width=2.6,
    )

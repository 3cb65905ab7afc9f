"""The five maths benchmarks: questions, and the scores of the paper's protocol.

Questions come from the data folder (`python -m harness data fetch`). Primary accuracy is the strict grader's, rescued
by the exact numerical fallback; both are reported. Outputs that were cut at the token limit stay in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.intervals import RESAMPLES, mean_over_questions
from harness.evaluation.outputs import Content, stale
from harness.evaluation.sampling import Generation, Request, Sampling, seed_of
from harness.rewards.batch import rescue_batch, score_batch
from harness.tasks.library import Library
from harness.tasks.prompts import Example

LENGTH_LIMIT = 4000
"""Tokens beyond which an answer exceeds (arXiv 2610.00574, section 3 of the evaluation protocol)."""
SAMPLING = Sampling(temperature=0.6, top_p=0.95, max_new_tokens=32768, context=None, samples=16, seed=0)
PROMPTS = "maths: one user turn, no system message"
METRICS = ("accuracy", "accuracy_strict", "exceed", "joint", "truncated")


@dataclass(frozen=True)
class Question:
    identifier: str
    example: Example

    def request(self, sample: int, seed: int) -> Request:
        key = (self.identifier, sample, 0, 0)
        return Request(key, self.example.messages, seed_of(seed, key))


def questions(benchmark: str, library: Library) -> list[Question]:
    """The questions of one benchmark. UserError when the data were not fetched."""
    examples = library.load(benchmark, "test")
    return [Question(f"{benchmark}/{example.index}", example) for example in examples]


def requests(asked: Sequence[Question], sampling: Sampling) -> list[Request]:
    """All samples of a question together: engines share the work on its prompt."""
    return [question.request(sample, sampling.seed) for question in asked for sample in range(sampling.samples)]


@dataclass(frozen=True)
class Scored:
    """``samples``: one row a generation. ``missing`` outputs count as not there, never as wrong; ``stale`` ones answer
    a question that is no longer asked (or was asked in other words)."""

    benchmark: str
    samples: pd.DataFrame
    missing: int
    stale: int


def score(
    benchmark: str,
    asked: Sequence[Question],
    content: Content,
    sampling: Sampling,
    whole: Sequence[Question] | None = None,
) -> Scored:
    """Score the stored outputs of one benchmark. ``whole``: all its questions, where only a part is asked."""
    found: list[tuple[Question, Generation]] = []
    missing = 0
    for question in asked:
        for sample in range(sampling.samples):
            request = question.request(sample, sampling.seed)
            generation = content.answer(request)
            if generation is None:
                missing += 1
            else:
                found.append((question, generation))
    texts = [generation.text for _, generation in found]
    references = [question.example.reference for question, _ in found]
    tokens = np.array([generation.tokens for _, generation in found], dtype=np.int64)
    scores = score_batch("maths", texts, references, tokens.tolist(), length_limit=LENGTH_LIMIT)
    strict = scores.channels["correctness"]
    primary = strict + rescue_batch(texts, references, strict)
    exceed = tokens > LENGTH_LIMIT
    table = pd.DataFrame(
        {
            "benchmark": benchmark,
            "question": [question.identifier for question, _ in found],
            "sample": [generation.key[1] for _, generation in found],
            "tokens": tokens,
            "finish": [generation.finish for _, generation in found],
            "accuracy": primary,
            "accuracy_strict": strict,
            "exceed": exceed.astype(float),
            "joint": primary * ~exceed,
            "truncated": np.array([generation.finish != "stop" for _, generation in found], dtype=float),
            **{f"failure_{kind}": flags.astype(float) for kind, flags in scores.failures.items()},
        }
    )
    prompts = {item.identifier: item.request(0, sampling.seed).prompt_sha256 for item in whole or asked}
    return Scored(benchmark, table, missing, stale(content, prompts))


def results(scored: Sequence[Scored], wanted: Mapping[str, int], sampling: Sampling) -> dict[str, Any]:
    """What is stored of an evaluation. ``wanted``: benchmark -> number of questions asked.

    Per benchmark each metric is the mean over questions of the mean over samples, with a bootstrap interval over
    questions (the samples of a question stay together). The macro mean over the five is None unless all five are here
    and complete.
    """
    metrics: dict[str, float | None] = {}
    intervals: dict[str, Any] = {}
    cells: dict[str, Any] = {}
    for part in scored:
        failures = [str(name) for name in part.samples if str(name).startswith("failure_")]
        by_question = part.samples.groupby("question", sort=False)[[*METRICS, *failures]].mean()
        cells[part.benchmark] = {
            "questions": wanted[part.benchmark],
            "scored_questions": len(by_question),
            "outputs": len(part.samples),
            "missing": part.missing,
            "stale": part.stale,
            "correct": int(part.samples["accuracy"].sum()),
            "correct_strict": int(part.samples["accuracy_strict"].sum()),
        }
        for name in by_question:
            metric = f"{str(name).replace('failure_', 'failure/')}/{part.benchmark}"
            values = by_question[name].to_numpy(float)
            metrics[metric] = float(values.mean()) if len(values) else None
            if name in METRICS and len(values):
                interval = mean_over_questions(values, ("evaluation", metric), resamples=RESAMPLES)
                intervals[metric] = {"low": interval.low, "high": interval.high, "n": interval.n, "note": interval.note}
        metrics[f"tokens/{part.benchmark}"] = float(part.samples["tokens"].mean()) if len(part.samples) else None
    complete = all(not cell["missing"] and cell["questions"] for cell in cells.values())
    if len(scored) == 1:
        metrics |= {name: metrics[f"{name}/{scored[0].benchmark}"] for name in METRICS}
    else:
        for name in METRICS:
            known = [value for part in scored if (value := metrics[f"{name}/{part.benchmark}"]) is not None]
            metrics[name] = float(np.mean(known)) if complete and len(known) == len(scored) else None
    return {
        "n": sum(cell["questions"] for cell in cells.values()),
        "metrics": metrics,
        "intervals": intervals,
        "cells": cells,
        "complete": complete,
        "missing": sum(cell["missing"] for cell in cells.values()),
        "stale": sum(cell["stale"] for cell in cells.values()),
        "length_limit": LENGTH_LIMIT,
        "resamples": RESAMPLES,
        "samples": sampling.samples,
    }

"""From conversations to figures: accuracy, format, length and parse failures, by category and by group."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd

from harness.analysis.intervals import mean_over_questions
from harness.evaluation.bfcl.categories import CASES, category_of, groups, official
from harness.evaluation.bfcl.client import BfclWorker
from harness.evaluation.bfcl.driver import Conversation, decoded
from harness.evaluation.bfcl.parsing import format_score, length_score, parse
from harness.evaluation.sandbox import Sandbox

QUANTITIES = ("accuracy", "format", "length", "parse_failure", "no_tool_call", "broken_lines")


PROCESSES = 2
"""Sandboxed processes that judge side by side."""


def judge(conversations: Sequence[Conversation], sandbox: Sandbox) -> tuple[pd.DataFrame, int]:
    """(one row a case, how often a process had to be started again). The values of several outputs of a case are
    averaged; a case without outputs has format 0. The processes are fresh ones."""
    present = [conversation for conversation in conversations if not conversation.missing]
    parts = [present[start::PROCESSES] for start in range(PROCESSES)]
    with ThreadPoolExecutor(PROCESSES) as pool:
        judged = list(pool.map(lambda part: _verdicts(part, sandbox), parts))
    verdicts = {case: verdict for part, _ in judged for case, verdict in part.items()}
    rows = []
    for conversation in present:
        case = conversation.case.identifier
        valid, error = verdicts[case]
        outputs = [text for turn in conversation.outputs for text in turn]
        parsed = [parse(text) for text in outputs]
        rows.append(
            {
                "question": case,
                "category": category_of(case),
                "accuracy": float(valid),
                "format": _mean([format_score(text) for text in outputs]),
                "length": _mean([length_score(text) for text in outputs]),
                "parse_failure": _mean([float(item.failed) for item in parsed]),
                "no_tool_call": _mean([float(not item.has_block) for item in parsed]),
                "broken_lines": _mean([float(item.broken > 0) for item in parsed]),
                "outputs": len(outputs),
                "forced_to_end": conversation.forced,
                "error_type": error,
            }
        )
    columns = ["question", "category", *QUANTITIES, "outputs", "forced_to_end", "error_type"]
    return pd.DataFrame(rows, columns=columns), sum(restarts for _, restarts in judged)


def _verdicts(part: Sequence[Conversation], sandbox: Sandbox) -> tuple[dict[str, tuple[bool, str]], int]:
    with BfclWorker(sandbox) as worker:
        found = {item.case.identifier: worker.judge(item.case.identifier, decoded(item)) for item in part}
        return found, worker.restarts


def results(table: pd.DataFrame, asked: Sequence[Conversation], *, whole: bool) -> dict[str, Any]:
    """What is stored. ``whole``: all cases of each category were asked; else groups of a part are still given, and the
    result says so. A category that was not run, or lacks outputs, is missing (None), and so is what needs it."""
    counts = pd.Series([category_of(item.case.identifier) for item in asked], dtype=object).value_counts()
    cells: dict[str, Any] = {}
    values: dict[str, dict[str, float | None]] = {name: {} for name in QUANTITIES}
    intervals: dict[str, Any] = {}
    for category in CASES:
        part = table[table["category"] == category]
        wanted = int(counts.get(category, 0))
        errors = part["error_type"][part["error_type"] != ""].value_counts()
        cells[category] = {
            "cases": CASES[category],
            "asked": wanted,
            "judged": len(part),
            "missing": wanted - len(part),
            "correct": int(part["accuracy"].sum()),
            "outputs": int(part["outputs"].sum()),
            "forced_to_end": int(part["forced_to_end"].sum()),
            "errors": {str(name): int(count) for name, count in errors.items()},
        }
        for name in QUANTITIES:
            known = len(part) > 0 and len(part) == wanted
            values[name][category] = float(part[name].mean()) if known else None
        if len(part):
            found = mean_over_questions(part["accuracy"].to_numpy(float), ("evaluation", "bfcl_v4", category))
            intervals[f"accuracy/{category}"] = {"low": found.low, "high": found.high, "n": found.n}
    metrics: dict[str, float | None] = {}
    for name in QUANTITIES:
        metrics |= {f"{name}/{group}": value for group, value in groups(values[name]).items()}
    metrics |= {f"accuracy/{name}": value for name, value in official(values["accuracy"]).items()}
    for name in QUANTITIES:
        metrics |= {f"{name}/{category}": value for category, value in values[name].items()}
    metrics["parse_failure"] = _mean_or_none(table["parse_failure"].tolist())
    sandboxed = int(table["error_type"].str.startswith("sandbox:").sum()) if len(table) else 0
    return {
        "n": len(table),
        "metrics": metrics,
        "intervals": intervals,
        "cells": cells,
        "complete": bool(len(table) == len(asked) and len(table) > 0),
        "missing": len(asked) - len(table),
        "whole_benchmark": whole and all(value is not None for value in values["accuracy"].values()),
        "ended_by_the_sandbox": sandboxed,
    }


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def _mean_or_none(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None

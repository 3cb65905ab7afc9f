"""The published runs and printed numbers of the DARA paper (arXiv 2610.00574) as rows of the result tables.

A published run is an index row of kind ``run``. Numbers that exist only as a summary over runs (a printed mean, a
median curve) are rows of their own, kind ``mean``, ``median``, ``q25`` or ``q75``, never mixed with runs. Percent
become fractions. Where two files give the same quantity, both stay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from harness.analysis import names, published_maths, published_summaries
from harness.analysis.published_rows import Builder, as_float, bfcl, read_csv
from harness.analysis.results import Results
from harness.errors import UserError

FIRST_STEP = "first_step/reward/format@0.8"
"""Metric that holds a published first crossing: its value is the step, missing when never; its step the last one."""

STEPS = {"tool_calling": 100, "maths": 100}


def published(reference: str | Path) -> Results:
    """Everything in the folder ``reference``. Raises :class:`UserError` naming a file that is missing or damaged."""
    folder = Path(reference)
    builder = Builder()
    try:
        _tool_calling_runs(builder, folder)
        _statuses(builder, folder)
        _selection(builder, folder)
        _evaluations(builder, folder)
        _dynamics(builder, folder)
        _group_size(builder, folder)
        published_maths.add(builder, folder)
        published_summaries.add(builder, folder)
    except (OSError, KeyError, json.JSONDecodeError, pd.errors.ParserError) as error:
        detail = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else f"{error!r}"
        raise UserError(f"{folder}: published numbers cannot be read ({detail}); restore the folder") from error
    return builder.results()


def _tool_calling_runs(builder: Builder, folder: Path) -> None:
    for row in read_csv(folder, "bfcl_v4_final_per_run.csv"):
        run_id = _tool_run(builder, row["run_id"], row, "tool_calling_main", "bfcl_v4_final_per_run.csv")
        builder.join_cohort(run_id, "final")
    for row in read_csv(folder, "bfcl_v4_dara_asym_per_run.csv"):
        run_id = _tool_run(builder, row["model"], row, "tool_calling_main", "bfcl_v4_dara_asym_per_run.csv")
        builder.join_cohort(run_id, "final")


def _tool_run(builder: Builder, name: str, row: dict[str, Any], study: str, origin: str) -> str:
    base = row["method"] == "base"
    return builder.run(
        name,
        study=study,
        task="tool_calling",
        model=names.model(row["model_size"]),
        method=names.method(row["method"]),
        group_size=None if base else 4,
        seed=None if base else row["seed"],
        engine=None if base else "verl",
        responses_per_step=None if base else 2048,
        steps=0 if base else STEPS["tool_calling"],
        last_step=0 if base else STEPS["tool_calling"],
        state="done",
        reason="published",
        origin=origin,
        published_exclusion=row.get("exclusion_reason"),
    )


def _statuses(builder: Builder, folder: Path) -> None:
    for row in read_csv(folder, "training_status_reference.csv"):
        name = f"{row['model_size'].lower()}-{row['method']}-s{row['seed']}"
        run_id = _tool_run(builder, name, row, "tool_calling_main", "training_status_reference.csv")
        builder.join_cohort(run_id, "status")
        builder.metric(run_id, row["step"], FIRST_STEP, row["format_t80"])
        builder.metric(run_id, row["step"], "reward/format", row["final_train_format"])
        builder.evaluation(run_id, "held_out", row["step"], "reward/format", row["final_val_format"], 80)
        builder.metric(run_id, row["step"], "training_seconds", row["total_training_seconds"])
    for row in read_csv(folder, "training_status_dara_asym.csv"):
        size = "" if row["model_size"] == "1.5B" else "3b-"
        name = f"haotian-{size}rdgdpo-positive-s{row['seed']}"
        run_id = _tool_run(builder, name, row, "tool_calling_main", "training_status_dara_asym.csv")
        builder.join_cohort(run_id, "status")
        if not row["complete"]:
            builder.index[run_id].update(
                last_step=row["max_step"],
                state="interrupted",
                reason=f"the public record ends at step {row['max_step']}; no evaluation",
            )
        builder.metric(run_id, row["max_step"], FIRST_STEP, row["format_0p8_step"])
        builder.metric(run_id, row["max_step"], "reward/format", row["final_train_format"])
        builder.metric(run_id, row["max_step"], "reward/correctness", row["final_train_correctness"])
        builder.evaluation(run_id, "held_out", row["last_val_step"], "reward/format", row["last_val_format"], 80)
        builder.evaluation(
            run_id, "held_out", row["last_val_step"], "reward/correctness", row["last_val_correctness"], 80
        )


def _selection(builder: Builder, folder: Path) -> None:
    for row in read_csv(folder, "bfcl_v4_run_selection.csv"):
        study = "tool_calling_main" if row["cohort"] == "final" else "tool_calling_reruns"
        run_id = _tool_run(builder, row["run_id"], row, study, "bfcl_v4_run_selection.csv")
        builder.join_cohort(run_id, row["cohort"])
        builder.metric(run_id, 100, "reward/format", row["training_format_step100"])
        builder.evaluation(run_id, "held_out", 100, "reward/format", row["validation_format_step100"], 80)


def _evaluations(builder: Builder, folder: Path) -> None:
    for name, prefix, key in (
        ("bfcl_v4_final_per_run.csv", "", "run_id"),
        ("bfcl_v4_step60_per_run.csv", "", "run_id"),
        ("bfcl_v4_dara_asym_per_run.csv", "v4_", "model"),
    ):
        for row in read_csv(folder, name):
            study = "tool_calling_reruns" if "step60" in name else "tool_calling_main"
            run_id = _tool_run(builder, row[key], row, study, name)
            step = row["checkpoint_step"] if "checkpoint_step" in row else row["step"]
            bfcl(builder, run_id, step, row, prefix, "")
            if "training_format_step60" in row:
                builder.metric(run_id, 60, "reward/format", row["training_format_step60"])
                builder.evaluation(run_id, "held_out", 60, "reward/format", row["validation_format_step60"], 80)


def _dynamics(builder: Builder, folder: Path) -> None:
    columns = {
        "train_format": "reward/format",
        "train_correctness": "reward/correctness",
        "response_tokens": "response_length",
        "dara/pi_correctness": "density/correctness",
        "dara/pi_format": "density/format",
        "dara/w_correctness": "weight/correctness",
        "dara/w_format": "weight/format",
    }
    for row in read_csv(folder, "training_dynamics_3runs.csv"):
        name = f"{row['model_size'].lower()}-{row['method']}-s{row['seed']}"
        run_id = _tool_run(builder, name, row, "tool_calling_main", "training_dynamics_3runs.csv")
        builder.evaluation(run_id, "held_out", row["step"], "reward/format", row["val_format"], 80)
        for column, metric in columns.items():
            if as_float(row[column]) is not None:
                builder.metric(run_id, row["step"], metric, row[column])


def _group_size(builder: Builder, folder: Path) -> None:
    """Markers of the group-size figure; at G 4 they are the main runs again, drawn a second time."""
    for row in read_csv(folder, "group_size.csv"):
        run_id = builder.run(
            f"group_size-g{row['group_size']}-{row['method']}-marker{row['marker_order']}",
            study="group_size",
            task="tool_calling",
            model="qwen2.5-1.5b",
            method=names.method(row["method"]),
            group_size=row["group_size"],
            engine="verl",
            responses_per_step=2048,
            steps=row["last_step"],
            last_step=row["last_step"],
            state="done",
            reason="published as a marker of a figure; the seed is not stated",
            origin="group_size.csv",
        )
        builder.metric(run_id, row["last_step"], FIRST_STEP, row["step_format_reaches_0p8"])

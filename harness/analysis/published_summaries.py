"""Published numbers that are summaries over runs: printed means and spreads, median curves with quartiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness.analysis import names
from harness.analysis.published_rows import Builder, bfcl, read_csv


def add(builder: Builder, folder: Path) -> None:
    _page(builder, folder)
    _method_tables(builder, folder)
    _figures(builder, folder)
    _group_size_density(builder, folder)
    _three_rewards(builder, folder)


def _summary(builder: Builder, name: str, kind: str, study: str, model: str, method: str, **facts: Any) -> str:
    run_id = builder.run(
        name,
        study=study,
        model=model,
        method=method,
        state="done",
        reason="a printed or drawn summary over runs",
        **{"task": "tool_calling", "group_size": None if method == "base" else 4, **facts},
    )
    builder.index[run_id]["kind"] = kind
    return run_id


def _page(builder: Builder, folder: Path) -> None:
    """Numbers as printed, the spread as ``sd`` rows. ``n_runs`` is what the page says, not what the record shows."""
    for row in read_csv(folder, "page.csv"):
        task = "maths" if row["study"].startswith("maths") else "tool_calling"
        common = {"origin": f"page.csv: {row['source']}", "n_runs": row["n_runs"], "task": task}
        if task == "maths":
            common["group_size"] = 16
        name = f"page-{row['item']}-{row['model']}-{row['method']}"
        kind = "median" if row["item"] == "learning_speed" else "mean"
        run_id = _summary(builder, name, kind, row["study"], row["model"], row["method"], **common)
        if row["benchmark"] == "training":
            builder.metric(run_id, row["step"], row["metric"], row["value"])
            continue
        builder.evaluation(run_id, row["benchmark"], row["step"], row["metric"], row["value"] / 100)
        if row["sd"] == row["sd"]:
            spread = _summary(builder, f"{name}-sd", "sd", row["study"], row["model"], row["method"], **common)
            builder.evaluation(spread, row["benchmark"], row["step"], row["metric"], row["sd"] / 100)


def _method_tables(builder: Builder, folder: Path) -> None:
    files = {
        "bfcl_v4_final_method_results.csv": "record-selected",
        "bfcl_v4_final_method_results_all_runs.csv": "record-all_runs",
        "bfcl_v4_step60_method_results.csv": "record-step60",
    }
    for file, label in files.items():
        for row in read_csv(folder, file):
            model, method = names.model(row["model_size"]), names.method(row["method"])
            for kind, suffix in (("mean", "_mean"), ("sd", "_sd")):
                name = f"{label}-{model}-{method}-{kind}"
                run_id = _summary(
                    builder, name, kind, "tool_calling_main", model, method, n_runs=row["n"], origin=file, cohort=label
                )
                bfcl(builder, run_id, row["step"], row, "", suffix)
    for row in read_csv(folder, "bfcl_v4_dara_asym_method.csv"):
        model, method = names.model(row["model_size"]), names.method(row["method"])
        for kind, suffix in (("mean", "_mean"), ("sd", "_sample_sd")):
            run_id = _summary(
                builder,
                f"record-selected-{model}-{method}-{kind}",
                kind,
                "tool_calling_main",
                model,
                method,
                n_runs=row["v4_average_accuracy_n"],
                origin="bfcl_v4_dara_asym_method.csv",
                cohort="record-selected",
            )
            bfcl(builder, run_id, 100, row, "v4_", suffix)


def _figures(builder: Builder, folder: Path) -> None:
    content = json.loads((folder / "paper_dynamics.json").read_text("utf-8"))
    model = "qwen2.5-1.5b"
    for series, metric in (("format_reward", "reward/format"), ("active_group_density", "density/format")):
        for label, curves in content["fig1b"][series].items():
            for key, kind in (("med", "median"), ("q25", "q25"), ("q75", "q75")):
                run_id = _summary(
                    builder,
                    f"figure1-{model}-{names.method(label)}-{kind}",
                    kind,
                    "tool_calling_main",
                    model,
                    names.method(label),
                    n_runs=5,
                    last_step=100,
                    origin="paper_dynamics.json: fig1b",
                )
                for step, value in zip(curves["step"], curves[key], strict=True):
                    builder.metric(run_id, step, metric, value)
    for label, curves in content["bfcl"].items():
        method = names.method(label)
        run_id = _summary(
            builder,
            f"figure2-{model}-{method}",
            "mean",
            "tool_calling_main",
            model,
            method,
            last_step=100,
            origin="paper_dynamics.json: bfcl; runs a step are not stated",
        )
        for step, accuracy, share in zip(curves["step"], curves["acc"], curves["fmt"], strict=True):
            builder.evaluation(run_id, "bfcl_v4", step, "accuracy/average", accuracy / 100)
            builder.evaluation(run_id, "bfcl_v4", step, "format/average", share / 100)


def _group_size_density(builder: Builder, folder: Path) -> None:
    for row in read_csv(folder, "group_size_density_from_svg.csv"):
        run_id = _summary(
            builder,
            f"group_size-g{row['group_size']}-{row['method']}-median",
            "median",
            "group_size",
            "qwen2.5-1.5b",
            names.method(row["method"]),
            group_size=row["group_size"],
            last_step=100,
            origin="group_size_density_from_svg.csv",
        )
        builder.metric(run_id, row["step"], "density/format", row["format_density_median"])


def _three_rewards(builder: Builder, folder: Path) -> None:
    metrics = {
        "average_format": "format/average",
        "multi_turn_format": "format/multi_turn",
        "average_length_compliance": "length/average",
    }
    model = "qwen2.5-1.5b"
    for row in read_csv(folder, "three_rewards.csv"):
        if row["metric"] not in metrics:
            continue
        method = names.method(row["method"])
        for column, study, task in (
            ("value_2_rewards", "tool_calling_main", "tool_calling"),
            ("value_3_rewards", "three_rewards", "tool_calling_three"),
        ):
            run_id = _summary(
                builder,
                f"page-table_2-{task}-{method}",
                "mean",
                study,
                model,
                method,
                task=task,
                origin="three_rewards.csv",
            )
            if row[column] == row[column]:
                builder.evaluation(run_id, "bfcl_v4", 100, metrics[row["metric"]], row[column] / 100)

"""Published maths numbers: densities and weights of one run a model, macro results, stable length crossings."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from harness.analysis import names
from harness.analysis.published_rows import Builder, read_csv

STUDIES = {"results_table": "maths_main", "static_weight_ablation": "maths_static", "text_step_100": "maths_step_100"}
RESULTS_STEP = 50
"""The prose beside the results table speaks of step 50; the table itself names no step."""


def add(builder: Builder, folder: Path) -> None:
    _energy(builder, folder)
    _macro(builder, folder)
    _thresholds(builder, folder)


def stable_metric(percent: int) -> str:
    return f"stable_step/reward/length@{percent / 100:g}"


def _run(builder: Builder, study: str, model: str, method: str, origin: str, **facts: Any) -> str:
    return builder.run(
        f"{study}-{model}-{method}",
        study=study,
        task="maths",
        model=model,
        method=method,
        group_size=None if method == "base" else 16,
        seed=None if method == "base" else 0,
        engine=None if method == "base" else "verl",
        state="done",
        reason="published",
        origin=origin,
        **facts,
    )


def _energy(builder: Builder, folder: Path) -> None:
    """The variant of DARA behind these densities is not published, so the method is called ``dara``."""
    for label, series in json.loads((folder / "paper_dynamics.json").read_text("utf-8"))["energy"].items():
        run_id = _run(
            builder, "maths_energy", names.model(label), "dara", "paper_dynamics.json", steps=100, last_step=100
        )
        columns = {
            "density/correctness": series["pic"],
            "density/length": series["pil"],
            "weight/length": series["wl"],
            "cap_hit/length": series["cap"],
            "energy_ratio/length/correctness/gdpo": series["gdpo"],
            "energy_ratio/length/correctness/dara": series["dara"],
        }
        for metric, values in columns.items():
            for step, value in zip(series["step"], values, strict=True):
                builder.metric(run_id, step, metric, value)


def _macro(builder: Builder, folder: Path) -> None:
    quantities = {"acc": "accuracy", "exceed": "exceed", "joint": "joint"}
    for row in read_csv(folder, "math.csv"):
        if row["section"] not in STUDIES:
            continue
        step = RESULTS_STEP if row["section"] == "results_table" else row["step"]
        method = names.method(row["method"])
        step = 0 if method == "base" else step
        run_id = _run(builder, STUDIES[row["section"]], names.model(row["model"]), method, "math.csv")
        builder.evaluation(run_id, "maths", step, quantities[row["metric"]], row["value"] / 100, 1559)


def _thresholds(builder: Builder, folder: Path) -> None:
    for row in read_csv(folder, "math_length_thresholds_from_svg.csv"):
        run_id = _run(
            builder,
            "maths_thresholds",
            names.model(row["model"]),
            names.method(row["method"]),
            "math_length_thresholds_from_svg.csv",
        )
        metric = stable_metric(int(row["length_compliance_percent"]))
        builder.metric(run_id, None, metric, row["first_stable_step"])
    for row in read_csv(folder, "math.csv"):
        if row["section"] not in ("text_length_compliance_threshold", "text_heldout"):
            continue
        if row["method"] == "DARA":  # "20 for all": no single run
            continue
        model, method = names.model(row["model"]), names.method(row["method"])
        run_id = builder.run(
            f"text-{model}-{method}",
            kind="mean",
            study="maths_thresholds",
            task="maths",
            model=model,
            method=method,
            group_size=16,
            n_runs=1,
            state="done",
            reason="printed in the text",
            origin="math.csv",
        )
        builder.index[run_id]["kind"] = "mean"
        if row["section"] == "text_heldout":
            metric = "first_held_out/reward/length@0.95"
        else:
            metric = stable_metric(math.floor(float(row["metric"].split(" at ")[1].split("%")[0])))
        builder.metric(run_id, None, metric, row["value"])

"""Where the published record disagrees with itself. Both values stay in the tables; these are the differences.

Each check compares two places that state the same quantity; rounding of the printed one is allowed for, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from harness.analysis.frames import grouped, records
from harness.analysis.published import FIRST_STEP
from harness.analysis.results import Results
from harness.analysis.thresholds import first_crossing

ROUNDING = 0.51e-4
"""A fraction printed as percent with two decimals is off by at most half of the last one."""

Finding = tuple[str, str, str]


def published_findings(results: Results) -> pd.DataFrame:
    """run_id, source, kind, detail; in the order of the checks. Empty when the record agrees with itself."""
    found: list[Finding] = []
    for check in _CHECKS:
        found.extend(check(results))
    table = pd.DataFrame(found, columns=["run_id", "kind", "detail"])
    table["source"] = "published"
    return table


def _cells(results: Results) -> pd.DataFrame:
    keys = ["run_id", "kind", "study", "task", "model", "method", "group_size", "cohort", "seed", "n_runs"]
    keys += ["published_exclusion"]
    return results.evals.merge(results.index[keys], on="run_id")


def _per_run(cells: pd.DataFrame) -> pd.DataFrame:
    """Mean, sample SD and n over the per-run record, without the runs that the record leaves out."""
    kept = cells[(cells["kind"] == "run") & cells["published_exclusion"].isna()]
    keys = ["task", "model", "method", "benchmark", "step", "metric"]
    kept = kept[kept["study"].isin(["tool_calling_main", "tool_calling_reruns"])]
    kept = kept[(kept["study"] == "tool_calling_main") | (kept["step"] < 100)]
    return kept.groupby(keys)["value"].agg(["mean", "std", "count"]).reset_index()


def _printed_against_runs(results: Results) -> list[Finding]:
    """Printed means and spreads against the mean and sample SD of the per-run values."""
    cells = _cells(results)
    keys = ["task", "model", "method", "benchmark", "step", "metric"]
    printed = cells[cells["kind"].isin(["mean", "sd"]) & (cells["cohort"] != "record-all_runs")]
    joined = printed.merge(_per_run(cells), on=keys)
    found = []
    for row in records(joined):
        recorded = row.mean if row.kind == "mean" else row.std
        if recorded is not None and math.isfinite(recorded) and abs(row.value - recorded) > ROUNDING:
            found.append(
                (
                    row.run_id,
                    "page_against_runs",
                    f"{row.model} {row.method} step {row.step} {row.metric}: printed {row.kind} {row.value:.2%}, "
                    f"per-run record {recorded:.2%} (n = {row.count})",
                )
            )
    return found


def _stated_number_of_runs(results: Results) -> list[Finding]:
    """The page speaks of five seeds; the record behind a mean has fewer."""
    cells = _cells(results)
    keys = ["task", "model", "method", "benchmark", "step", "metric"]
    stated = cells[(cells["kind"] == "mean") & cells["n_runs"].notna() & (cells["metric"] == "accuracy/average")]
    joined = stated.merge(_per_run(cells), on=keys)
    return [
        (
            row.run_id,
            "number_of_runs",
            f"{row.model} {row.method} step {row.step}: {row.n_runs} runs stated, {row.count} in the record",
        )
        for row in records(joined)
        if row.n_runs != row.count and row.cohort != "record-all_runs"
    ]


def _summaries_against_each_other(results: Results) -> list[Finding]:
    """The same mean printed twice (table, text, figure): differences beyond rounding of both."""
    cells = _cells(results)
    means = cells[(cells["kind"] == "mean") & (cells["cohort"] == "")]
    keys = ["task", "model", "method", "benchmark", "step", "metric"]
    found = []
    for key, part in grouped(means, keys, dropna=False):
        if part["value"].max() - part["value"].min() > 2 * ROUNDING:
            values = ", ".join(f"{row.value:.2%} ({row.run_id})" for row in records(part))
            label = f"{key[1]} {key[2]} step {key[4]} {key[5]}"
            found.append((str(part["run_id"].iloc[0]), "printed_twice", f"{label}: {values}"))
    return found


def _left_out(results: Results) -> list[Finding]:
    """Runs that the published means leave out, and what they would change."""
    cells = _cells(results)
    main = cells[(cells["kind"] == "run") & (cells["study"] == "tool_calling_main") & (cells["benchmark"] == "bfcl_v4")]
    found: list[Finding] = []
    for key, part in grouped(main[main["step"] == 100], ["model", "method", "metric"]):
        out = part[part["published_exclusion"].notna()]
        if key[2] != "format/average" or out.empty:
            continue
        kept = part[part["published_exclusion"].isna()]["value"]
        everyone = part["value"]
        detail = (
            f"{key[0]} {key[1]}: {len(out)} of {len(part)} runs are left out ({out['published_exclusion'].iloc[0]}); "
            f"average format {kept.mean():.2%} without them, {everyone.mean():.2%} +-{everyone.std():.2%} with them"
        )
        found.extend((str(name), "left_out", detail) for name in out["run_id"])
    return found


def _unfinished(results: Results) -> list[Finding]:
    runs = results.runs()
    return [
        (row.run_id, "unfinished", f"{row.model} {row.method} seed {row.seed}: {row.reason}")
        for row in records(runs[runs["state"] != "done"])
    ]


def _curves_against_crossings(results: Results) -> list[Finding]:
    """Published first steps with format >= 0.8 against the public curves; also of the median curve."""
    metrics = results.metrics
    stated = metrics[metrics["metric"] == FIRST_STEP].set_index("run_id")["value"]
    found = []
    for name, curve in results.curves("reward/format", results.runs()).items():
        if len(curve) < 10 or name not in stated:
            continue
        seen = first_crossing(curve, 0.8).at
        if seen != stated[name]:
            found.append((name, "crossing", f"stated first step {stated[name]:g}, its public curve gives {seen}"))
    medians = results.runs(kind="median", study="tool_calling_main")
    per_seed = results.runs(study="tool_calling_main", model="qwen2.5-1.5b")
    for name, curve in results.curves("reward/format", medians).items():
        method = medians.loc[medians["run_id"] == name, "method"].iloc[0]
        steps = stated.reindex(per_seed.loc[per_seed["method"] == method, "run_id"]).dropna()
        seen = first_crossing(curve, 0.8).at
        if len(steps) and seen != steps.median():
            detail = f"median of the per-seed first steps {steps.median():g}, first step of the median curve {seen}"
            found.append((name, "crossing", f"{method}: {detail}"))
    return found


def _same_seed_run_twice(results: Results) -> list[Finding]:
    """A method, model and seed that was run twice: how far apart the two runs end."""
    runs = results.runs(study=["tool_calling_main", "tool_calling_reruns"])
    final = results.metrics[(results.metrics["metric"] == "reward/format") & (results.metrics["step"] == 100)]
    values = final.drop_duplicates("run_id").set_index("run_id")["value"]
    found = []
    for key, part in runs[runs["seed"].notna()].groupby(["model", "method", "seed"]):
        ends = values.reindex(part["run_id"]).dropna()
        if len(ends) > 1 and ends.max() - ends.min() > 0.05:
            listed = ", ".join(f"{value:.3f} ({name})" for name, value in ends.items())
            found.append((str(ends.idxmin()), "same_seed_twice", f"{key[0]} {key[1]} seed {key[2]}: {listed}"))
    return found


def _training_against_validation(results: Results) -> list[Finding]:
    """A run kept by its validation format although its training format never held."""
    final = results.metrics[(results.metrics["metric"] == "reward/format") & (results.metrics["step"] == 100)]
    training = final.drop_duplicates("run_id").set_index("run_id")["value"]
    held_out = results.evals[
        (results.evals["benchmark"] == "held_out")
        & (results.evals["metric"] == "reward/format")
        & (results.evals["step"] == 100)
    ]
    found = []
    for row in records(held_out.drop_duplicates("run_id")):
        trained = training.get(row.run_id, np.nan)
        if abs(trained - row.value) > 0.2:
            detail = f"step 100: training format {trained:.3f}, validation format {row.value:.3f}"
            found.append((row.run_id, "training_against_validation", detail))
    return found


def _stated_twice(results: Results) -> list[Finding]:
    """One metric of one run and step with two values (two files)."""
    found = []
    for table, keys in (
        (results.metrics, ["run_id", "step", "metric"]),
        (results.evals, ["run_id", "benchmark", "step", "metric"]),
    ):
        for key, part in grouped(table[table.duplicated(keys, keep=False)], keys, dropna=False):
            if part["value"].max() - part["value"].min() > 1e-6:
                values = ", ".join(f"{value:.6g}" for value in part["value"])
                found.append((str(key[0]), "stated_twice", f"{key[-1]} at step {key[-2]}: {values}"))
    return found


def _energy(results: Results) -> list[Finding]:
    """Energy ratio and weight against what the published densities give; the cap is 5."""
    found = []
    for run in records(results.runs(study="maths_energy")):
        part = results.metrics[results.metrics["run_id"] == run.run_id]
        table = part.pivot(index="step", columns="metric", values="value")
        ratio = table["density/length"] / table["density/correctness"]
        weight = np.sqrt(1 / ratio).clip(1, 5)
        gaps = {
            "energy ratio under gdpo": (ratio - table["energy_ratio/length/correctness/gdpo"]).abs() / ratio,
            "length weight": (weight - table["weight/length"]).abs() / weight,
        }
        for label, gap in gaps.items():
            worst = gap.idxmax()
            if gap[worst] > 0.01:
                found.append(
                    (run.run_id, "energy", f"{label}: off by {gap[worst]:.1%} at step {worst} from the densities")
                )
    return found


def _group_size_markers(results: Results) -> list[Finding]:
    found = []
    for (method, size), part in grouped(results.runs(study="group_size"), ["method", "group_size"]):
        if len(part) != 3:
            name = f"published:group_size-g{size}-{method}-median"
            found.append((name, "number_of_runs", f"{method} G {size}: {len(part)} runs drawn, 3 stated"))
    return found


_CHECKS: tuple[Callable[[Results], list[Finding]], ...] = (
    _printed_against_runs,
    _stated_number_of_runs,
    _summaries_against_each_other,
    _left_out,
    _unfinished,
    _curves_against_crossings,
    _same_seed_run_twice,
    _training_against_validation,
    _stated_twice,
    _energy,
    _group_size_markers,
)

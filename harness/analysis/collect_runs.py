"""The run store as result tables. Nothing is skipped without a finding that says what and why.

Findings: ``overlap`` (steps logged by more than one attempt: the last one counts), ``gap`` (steps missing in between),
``unreadable_line``, ``unfinished_line``, ``not_finite``, ``damaged`` (configuration or manifest), ``evaluation``
(unreadable), ``evaluation_ahead`` (of a step that a later attempt has not reached again), ``not_a_run``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.analysis.question_tables import QuestionsUnreadable, per_question
from harness.analysis.results import Results
from harness.analysis.run_tables import RunTables
from harness.config import DataConfig, EngineConfig, MethodConfig, RunConfig
from harness.errors import UserError
from harness.store import Run, RunStatus, RunStore
from harness.store.metrics import MetricsLog
from harness.store.status_sources import statuses
from harness.store.stored_config import NAME as CONFIG_NAME

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESERVED = ("schema", "attempt", "step")
_NO_PARAMETERS = ("name", "file", "file_sha256")
SOURCE = "ours"


def collect_runs(root: str | Path) -> Results:
    """All runs below ``root``. A folder that does not exist holds no runs."""
    store = RunStore(root)
    tables = RunTables(SOURCE)
    runs = store.runs()
    states = statuses(runs)
    for run in runs:
        _collect(run, states[run.run_id], tables)
    known = {run.run_id for run in runs}
    for name in _other_folders(store.root):
        if name not in known:
            tables.finding(name, "not_a_run", "a folder without config.yaml and manifest.json")
    return tables.results()


def _collect(run: Run, status: RunStatus, tables: RunTables) -> None:
    log = run.metrics.read()
    tables.index.append(_describe(run, status, log, tables))
    _metrics(run.run_id, log, tables)
    _evaluations(run, log, tables)


def _describe(run: Run, status: RunStatus, log: MetricsLog, tables: RunTables) -> dict[str, Any]:
    config = _configuration(run, tables)
    if status.state == "damaged":
        tables.finding(run.run_id, "damaged", status.reason)
    method = _part(config, "method")
    return {
        "run_id": run.run_id,
        "source": SOURCE,
        "kind": "run",
        "study": config.get("study"),
        "scale": config.get("scale"),
        "task": _part(config, "task").get("name"),
        "model": _part(config, "model").get("name"),
        "method": method.get("name"),
        "parameters": _text({key: value for key, value in method.items() if key not in _NO_PARAMETERS}),
        "group_size": config.get("group_size"),
        "seed": config.get("seed"),
        "engine": _part(config, "engine").get("name"),
        "family_id": _digest(config, ("seed", "method", "group_size")),
        "setting_id": _digest(config, ("seed", "method")),
        "cell_id": _digest(config, ("seed",)),
        "responses_per_step": _part(config, "training").get("responses_per_step"),
        "steps": status.steps,
        "last_step": log.rows[-1]["step"] if log.rows else 0,
        "state": status.state,
        "reason": status.reason,
        "attempts": status.attempts,
        "n_runs": 1,
        "cohort": "",
        "origin": "run store",
    }


def _configuration(run: Run, tables: RunTables) -> dict[str, Any]:
    """config.yaml as plain data; its agreement with the run's name is what the run's status checks."""
    try:
        content = yaml.load((run.path / CONFIG_NAME).read_bytes(), Loader=_Loader)
    except (OSError, yaml.YAMLError, ValueError) as error:
        tables.finding(run.run_id, "damaged", f"{CONFIG_NAME}: {' '.join(str(error).split())}")
        return {}
    return content if isinstance(content, dict) else {}


def _part(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def _outside_identity(config: type) -> tuple[str, ...]:
    """Keys that may differ between two executions of the same run (harness/config.py)."""
    return tuple(item.name for item in dataclasses.fields(config) if not item.metadata.get("identity", True))


_OUTSIDE_IDENTITY = _outside_identity(RunConfig)
_OUTSIDE_PARTS = {
    "engine": _outside_identity(EngineConfig),
    "data": _outside_identity(DataConfig),
    "method": _outside_identity(MethodConfig),
}


def _digest(config: Mapping[str, Any], without: Iterable[str]) -> str:
    """Equal for configurations that agree in all that is part of a run's identity but the keys ``without``."""
    left_out = {*_OUTSIDE_IDENTITY, *without}
    content = {key: value for key, value in config.items() if key not in left_out}
    for part in _OUTSIDE_PARTS.keys() - left_out:
        keys = _OUTSIDE_PARTS[part]
        content[part] = {key: value for key, value in _part(config, part).items() if key not in keys}
    return hashlib.sha256(_text(content).encode()).hexdigest()[:10]


def _text(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, default=str)


def _metrics(run_id: str, log: MetricsLog, tables: RunTables) -> None:
    for finding in log.findings:
        tables.finding(run_id, "unreadable_line", f"metrics.jsonl, line {finding.line}: {finding.problem}")
    if log.unfinished is not None:
        tables.finding(run_id, "unfinished_line", f"line {log.unfinished.line}: {log.unfinished.problem}")
    strange = tables.add_metrics(run_id, log.rows, _RESERVED)
    for metric, steps in sorted(strange.items()):
        tables.finding(run_id, "not_finite", f"{metric}: no finite number at steps {ranges(steps)}")
    _overlaps_and_gaps(run_id, log, tables)


def _overlaps_and_gaps(run_id: str, log: MetricsLog, tables: RunTables) -> None:
    attempts: dict[int, list[int]] = {}
    for line in log.lines:
        attempts.setdefault(line["step"], []).append(line["attempt"])
    repeated = sorted(step for step, by in attempts.items() if len(by) > 1)
    if repeated:
        tables.finding(
            run_id, "overlap", f"steps {ranges(repeated)} were logged more than once; the last attempt counts"
        )
    kept = {row["step"] for row in log.rows}
    lost = sorted(set(attempts) - kept)
    if lost:
        tables.finding(run_id, "overlap", f"steps {ranges(lost)} of an earlier attempt are not reached again")
    if kept:
        missing = sorted(set(range(1, max(kept) + 1)) - kept)
        if missing:
            tables.finding(run_id, "gap", f"steps {ranges(missing)} are missing")


def _evaluations(run: Run, log: MetricsLog, tables: RunTables) -> None:
    last = log.rows[-1]["step"] if log.rows else 0
    for benchmark in run.evaluations.benchmarks():
        for step in run.evaluations.steps(benchmark):
            try:
                content = run.evaluations.read(benchmark, step)
                values, n = _numbers(content.get("metrics")), content.get("n")
            except (UserError, ValueError, TypeError) as error:
                tables.finding(run.run_id, "evaluation", f"evals/{benchmark}/{step}.json: {error}")
                continue
            if step > last:
                tables.finding(
                    run.run_id, "evaluation_ahead", f"evals/{benchmark}/{step}.json: the metrics end at step {last}"
                )
            n = n if isinstance(n, int) and not isinstance(n, bool) else None
            try:
                questions = per_question(run.evaluations.path(benchmark, step), benchmark, step)
            except QuestionsUnreadable as error:
                tables.finding(run.run_id, "evaluation", f"evals/{benchmark}/{step}.parquet: {error}")
                questions = None
            if questions is not None:
                tables.add_questions(run.run_id, questions)
            tables.evals.extend((run.run_id, benchmark, step, metric, value, n) for metric, value in values.items())


def _numbers(content: Any, prefix: str = "") -> dict[str, float]:
    """Numbers of a nested mapping under keys joined by ``/``; None and text are left out."""
    if not isinstance(content, Mapping):
        raise ValueError(f"metrics must be a mapping, found {type(content).__name__}")
    found: dict[str, float] = {}
    for key, value in content.items():
        if isinstance(value, Mapping):
            found |= _numbers(value, f"{prefix}{key}/")
        elif isinstance(value, int | float):
            found[f"{prefix}{key}"] = float(value)
    return found


def _other_folders(root: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []


def ranges(steps: Iterable[int]) -> str:
    """``[1, 2, 3, 7]`` -> ``"1-3, 7"``."""
    parts: list[list[int]] = []
    for step in sorted(set(steps)):
        if parts and step == parts[-1][1] + 1:
            parts[-1][1] = step
        else:
            parts.append([step, step])
    return ", ".join(f"{first}-{last}" if last > first else f"{first}" for first, last in parts)

"""Between the matrix and a launcher: check what can be checked before anything starts, then start or only say."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from harness.aggregation import aggregate, load_method, step_parameters
from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.engine_lookup import find_engine


def start(
    runs: Sequence[RunConfig],
    *,
    duplicates: int,
    place: str,
    options: Mapping[str, Any],
    dry_run: bool,
    retry: bool,
) -> int:
    """Start the runs that are not done on this machine (``place="pool"``) or a cluster (``"slurm"``).

    ``options`` is the launcher's node of conf/hydra/launcher. Returns the exit code of the command. Raises
    :class:`UserError` before anything starts when a run cannot work.
    """
    if not runs:
        raise UserError("no runs: the matrix is empty; give at least one method, e.g. method=gdpo")
    check(runs)
    from harness.store import RunStore

    store = RunStore(runs[0].output.runs)
    if duplicates:
        print(f"{duplicates} duplicate combinations left out")
    launcher = importlib.import_module(f"harness.launch.{place}")
    settings = {key: value for key, value in options.items() if key != "_target_"}
    if dry_run:
        code = int(launcher.dry_run(runs, store=store, options=settings))
        for name in {run.engine.name: None for run in runs}:
            engine = find_engine(name)
            if hasattr(engine, "plan"):
                engine.plan([run for run in runs if run.engine.name == name], store.root)
        return code
    return int(launcher.launch(runs, store=store, options=settings, retry=retry))


def check(runs: Sequence[RunConfig]) -> None:
    """Engines installed, methods applicable to the channels of their tasks, one folder for all runs."""
    for name in {run.engine.name for run in runs}:
        _check_engine(name)
    folders = {run.output.runs for run in runs}
    if len(folders) > 1:
        raise UserError(f"output.runs differs between runs ({', '.join(sorted(folders))}); one matrix has one folder")
    seen: set[str] = set()
    for run in runs:
        key = repr((run.method, run.task))
        if key not in seen:
            seen.add(key)
            _check_method(run)


def _check_engine(name: str) -> None:
    find_engine(name)
    if name == "verl" and importlib.util.find_spec("verl") is None:
        raise UserError('engine=verl needs verl, which is not installed: pip install -e ".[verl]"')


def _check_method(run: RunConfig) -> None:
    """A batch of two responses shows whether weights and bounds fit the channels."""
    method = load_method(run.method.file or run.method.name, run.method.name)
    channels = list(run.task.channels)
    bounds = {name: (channel.low, channel.high) for name, channel in run.task.channels.items()}
    parameters = step_parameters(method, run.method.parameters, bounds=bounds, progress=0.0)
    rewards = {name: [channel.low, channel.high] for name, channel in run.task.channels.items()}
    try:
        aggregate(
            method,
            rewards,
            ["one", "one"],
            channels=channels,
            lengths=[1, 1],
            normalization=run.task.normalization,
            **parameters,
        )
    except (ValueError, TypeError) as error:
        raise UserError(
            f"method={run.method.name} with task={run.task.name}: {' '.join(str(error).split())}"
        ) from error

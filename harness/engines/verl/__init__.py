"""Engine ``verl``: upstream verl with every aggregation method, by plug-ins alone; GPUs, or a CPU for the pocket model.

``train(config, run)`` starts ``python -m verl.trainer.main_ppo`` with the run's configuration, stores what it reports,
and continues from the last whole checkpoint. Nothing here imports verl before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.config import RunConfig
    from harness.launch.findings import Finding
    from harness.store import Run


def train(config: RunConfig, run: Run, should_stop: Callable[[], bool] | None = None) -> None:
    """Train ``run`` until ``config.training.steps``, or until ``should_stop()``: then after the current step.

    In both cases a checkpoint of the last step is on disk when it returns; ``run.metrics.last_step()`` tells which of
    the two it was. Raises :class:`~harness.errors.UserError` for what the user can mend before the start, and
    :class:`~harness.engines.verl.process.TrainingFailedError` with the cause when verl ends otherwise.
    """
    from harness.engines.verl import process

    process.train(config, run, should_stop or _never)


def prepare(configs: Sequence[RunConfig]) -> None:
    """Before the first of several runs: check each, and build the pocket checkpoints they share once."""
    from harness.engines.verl import mapping, process

    process.require_verl()
    for config in configs:
        mapping.check(config)
        if config.data.source == "generated":
            from harness.pocket import pocket_task

            pocket_task(config).checkpoint  # noqa: B018


def plan(configs: Sequence[RunConfig], runs: Path) -> None:
    """What ``dry_run=true`` adds: each run's command for verl, written below ``runs`` and the first one printed."""
    from harness.engines.verl import dry_run

    dry_run.write_commands(configs, runs)


def diagnose(config: RunConfig, run: Path | None) -> list[Finding]:
    """What ``python -m harness doctor`` reports about a run of this engine."""
    from harness.engines.verl import preflight

    return preflight.diagnose(config, run)


def _never() -> bool:
    return False

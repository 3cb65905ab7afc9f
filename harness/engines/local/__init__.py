"""Engine ``local``: one process, one policy, the CPU or one GPU.

``train(config, run)`` trains a run or continues it from its last checkpoint; every random number is a function of
(seed, step), so that a continued run is bit for bit the run that was never interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.config import RunConfig
    from harness.store import Run


def train(config: RunConfig, run: Run, should_stop: Callable[[], bool] | None = None) -> None:
    """Train ``run`` until ``config.training.steps``, or until ``should_stop()`` is true after a step.

    In both cases a checkpoint of the last step is on disk when it returns; ``run.metrics.last_step()`` tells which of
    the two it was. Raises :class:`~harness.errors.UserError` for a configuration this engine cannot train, and
    :class:`~harness.engines.local.trainer.TrainingFailed` for a reward, loss or gradient that is not finite.
    """
    from harness.engines.local.trainer import train as train_run

    train_run(config, run, should_stop)


def prepare(configs: Sequence[RunConfig]) -> None:
    """Check every configuration, then build the pocket checkpoints that the runs share, once each.

    Called in a process of its own before the first run starts. Raises :class:`~harness.errors.UserError`.
    """
    from harness.engines.local import settings
    from harness.pocket import pocket_task

    for config in configs:
        settings.check(config)
    for config in configs:
        _ = pocket_task(config).checkpoint

"""A run's aggregation method applied to a step's experience, and the metrics it gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.aggregation import Aggregation, Method, aggregate_batch, get_method, load_method, prepare
from harness.config import RunConfig
from harness.engines.local.generation import Experience, TrainingFailed
from harness.errors import UserError

Floats = npt.NDArray[np.float64]


class Aggregator:
    """The method of ``config`` with all of its parameters.

    What a method asks for and the run knows is filled in unless given: ``bounds`` from the task's channels,
    ``progress`` from the step (0 at the first, 1 at the last). UserError at once for a method or parameter that
    cannot work.
    """

    def __init__(self, config: RunConfig) -> None:
        self.channels = list(config.task.channels)
        self.method = _method(config)
        self._config = config
        low = [channel.low for channel in config.task.channels.values()]
        try:
            self._aggregate(np.array([low, low]), np.zeros(2), np.ones(2, dtype=np.int64), 1)
        except ValueError as error:
            raise UserError(f"method {config.method.name} on task {config.task.name}: {error}") from error

    def __call__(self, experience: Experience, step: int, penalty: Floats | None = None) -> Aggregation:
        """Advantages of ``experience``. ``penalty`` [N] is taken from the first channel: for a method that sums the
        channels this is the summed reward with the penalty in it, and only such a method may get one."""
        rewards = experience.rewards(self.channels)
        if penalty is not None:
            rewards[:, 0] -= penalty
        try:
            return self._aggregate(rewards, experience.prompt_of, experience.lengths, step)
        except ValueError as error:
            raise TrainingFailed(f"step {step}: method {self.method.name}: {error}") from error

    def _aggregate(self, rewards: Floats, groups: Any, lengths: Any, step: int) -> Aggregation:
        batch = prepare(rewards, groups, channels=self.channels, lengths=lengths)
        normalization = self._config.task.normalization
        return aggregate_batch(self.method, batch, normalization=normalization, **self.parameters(step))

    def parameters(self, step: int) -> dict[str, Any]:
        """The method's parameters at ``step``."""
        given = dict(self._config.method.parameters)
        if "bounds" in self.method.parameters and given.get("bounds") is None:
            given["bounds"] = {name: (item.low, item.high) for name, item in self._config.task.channels.items()}
        if "progress" in self.method.parameters and given.get("progress") is None:
            given["progress"] = (step - 1) / max(self._config.training.steps - 1, 1)
        return given

    def metrics(self, aggregation: Aggregation | None) -> dict[str, float | int | None]:
        """Density, energy, weight, cap and missing rewards by channel; without an aggregation density and energy are 0
        and the weight is unknown."""
        row: dict[str, float | int | None] = {}
        for name in self.channels:
            row[f"density/{name}"] = 0.0 if aggregation is None else aggregation.density[name]
            row[f"energy/{name}"] = 0.0 if aggregation is None else aggregation.energy[name]
            row[f"weight/{name}"] = None if aggregation is None else aggregation.weights[name]
            row[f"cap_hit/{name}"] = 0 if aggregation is None else int(aggregation.cap_hit[name])
            row[f"missing/{name}"] = 0 if aggregation is None else aggregation.missing[name]
        return row


def _method(config: RunConfig) -> Method:
    try:
        if config.method.file is not None:
            return load_method(config.method.file, config.method.name)
        return get_method(config.method.name)
    except (ValueError, OSError, ImportError, SyntaxError) as error:
        raise UserError(f"method {config.method.name}: {error}") from error

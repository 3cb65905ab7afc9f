"""Weights & Biases beside the metrics log: one wandb run per run, resumed by its id. It can fail; training goes on."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.compose import run_config_to_mapping
from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.store import Run
from harness.store.plain import to_plain

MODES = ("disabled", "offline", "online")
_START_SECONDS = 90
_FINISH_SECONDS = 300


@contextlib.contextmanager
def tracked(run: Run, config: RunConfig) -> Iterator[None]:
    """Send each metrics row and evaluation of the ``with`` block to wandb, unless ``output.wandb.mode=disabled``."""
    mode = config.output.wandb.mode
    if mode not in MODES:
        raise UserError(f"wandb.mode={mode} is unknown: {nearest(mode, MODES)}")
    if mode == "disabled":
        yield
        return
    tracker = _Tracker(run, config)
    tracker.start()
    try:
        yield
    finally:
        tracker.finish()


class _Tracker:
    def __init__(self, run: Run, config: RunConfig) -> None:
        self._run = run
        self._config = config
        self._wandb_run: Any = None
        self._warned = False

    def start(self) -> None:
        os.environ["WANDB_MODE"] = self._config.output.wandb.mode
        os.environ.setdefault("WANDB_SILENT", "true")
        self._guarded("starting", self._init, _START_SECONDS)
        if self._wandb_run is not None:
            self._run.metrics.subscribe(self._metrics)
            self._run.evaluations.subscribe(self._evaluation)

    def finish(self) -> None:
        if self._wandb_run is not None:
            self._guarded("finishing", self._wandb_run.finish, _FINISH_SECONDS)

    def _init(self) -> None:
        import wandb

        settings = self._config.output.wandb
        wandb_run = wandb.init(
            id=self._run.run_id,
            name=self._run.run_id,
            resume="allow",
            project=settings.project,
            entity=settings.entity,
            dir=str(self._run.path),
            group=self._config.study,
            config=to_plain(run_config_to_mapping(self._config)),
        )
        wandb_run.define_metric("step")
        wandb_run.define_metric("*", step_metric="step")
        self._wandb_run = wandb_run

    def _metrics(self, row: Mapping[str, Any]) -> None:
        values = {key: value for key, value in row.items() if key != "schema" and value is not None}
        self._guarded("logging", lambda: self._wandb_run.log(values))

    def _evaluation(self, content: Mapping[str, Any]) -> None:
        name = content["benchmark"]
        values = {f"eval/{name}/{key}": value for key, value in content["metrics"].items()}
        self._guarded("logging", lambda: self._wandb_run.log({"step": content["step"], **values}))

    def _guarded(self, what: str, action: Callable[[], Any], seconds: float | None = None) -> None:
        """Do it; a failure, or no answer within ``seconds``, is written to the run's log once."""
        problem: list[str] = []

        def attempt() -> None:
            try:
                action()
            except Exception as error:
                problem.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")

        if seconds is None:
            attempt()
        else:
            thread = threading.Thread(target=attempt, name="wandb", daemon=True)
            thread.start()
            thread.join(seconds)
            if thread.is_alive():
                problem.append(f"no answer within {seconds:.0f} s")
        if problem and not self._warned:
            self._warned = True
            self._run.log(f"warning: wandb, {what}: {problem[0]}; training goes on, metrics.jsonl is complete")

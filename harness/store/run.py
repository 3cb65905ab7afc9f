"""One run on the disk: its configuration, what it logs, what it keeps, who works on it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import RunConfig, run_id
from harness.store.evaluations import Evaluations
from harness.store.files import write_atomically
from harness.store.lock import RunLock
from harness.store.manifest import Manifest, timestamp
from harness.store.metrics import Metrics
from harness.store.status import RunStatus, status_of
from harness.store.stored_config import NAME as CONFIG_NAME
from harness.store.stored_config import digest, read_config, to_yaml

if TYPE_CHECKING:
    import pandas

FOLDERS = ("checkpoints", "rollouts", "evals")


class Run:
    """A folder of the store. Opening one reads nothing; errors of damaged files come when they are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.manifest = Manifest(path)
        self.evaluations = Evaluations(path / "evals")
        self.metrics = Metrics(
            path / "metrics.jsonl", attempt=self._current_attempt, may_write=self._check_lock, report=self.log
        )
        self._lock: RunLock | None = None
        self._attempt: int | None = None

    def __repr__(self) -> str:
        return f"Run({self.path})"

    @property
    def run_id(self) -> str:
        return self.path.name

    @functools.cached_property
    def config(self) -> RunConfig:
        """Raises :class:`~harness.errors.UserError` when config.yaml is damaged or was edited."""
        return read_config(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def rollouts(self) -> Path:
        return self.path / "rollouts"

    @property
    def log_path(self) -> Path:
        return self.path / "log.txt"

    def status(self) -> RunStatus:
        return status_of(self.path, self.metrics)

    # What an attempt does.

    @contextlib.contextmanager
    def lock(self, owner: str) -> Iterator[RunLock]:
        """Hold the run. Raises :class:`~harness.store.lock.LockBusyError` while a living process holds it."""
        lock = RunLock(self.path, owner)
        lock.acquire()
        self._lock = lock
        if lock.replaced is not None:
            self.log(f"took over the lock of {lock.replaced}, which is dead")
        try:
            yield lock
        finally:
            self._lock = None
            self.metrics.close()
            lock.release()

    def begin_attempt(self, info: Mapping[str, Any]) -> int:
        """Add an entry to the manifest (``info`` joins it) and return its number, which each metrics line carries."""
        self._attempt = self.manifest.begin_attempt(info)
        return self._attempt

    def end_attempt(self, outcome: str, error: str | None = None) -> None:
        """``outcome``: ``finished``, ``interrupted`` or ``failed``. Does not decide whether the run is done."""
        self.manifest.end_attempt(self._current_attempt(), outcome, error)
        self._attempt = None

    def record(self, key: str, value: Any) -> None:
        """Keep a fact of the run in the manifest, e.g. ``record("model_sha256", "...")``."""
        self.manifest.record(key, value)

    def write_evaluation(
        self,
        benchmark: str,
        step: int,
        results: Mapping[str, Any],
        per_question: pandas.DataFrame | None = None,
    ) -> Path:
        """Store ``results`` with keys ``n`` and ``metrics`` as evals/<benchmark>/<step>.json (and .parquet)."""
        return self.evaluations.write(benchmark, step, results, per_question)

    def log(self, text: str) -> None:
        """Append a line to log.txt. A log that cannot be written never stops a training."""
        try:
            with open(self.log_path, "a", encoding="utf-8") as file:
                file.write(f"{timestamp()} {text}\n")
        except OSError as error:
            print(f"warning: {self.log_path}: {error.strerror}: {text}", file=sys.stderr)

    def last_log_lines(self, count: int) -> list[str]:
        try:
            with open(self.log_path, "rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 400 * count))
                return file.read().decode(errors="replace").splitlines()[-count:]
        except OSError:
            return []

    def adopt(self, config: RunConfig) -> None:
        """Take the settings outside the run's identity (output, nodes, engine options) from ``config``."""
        if run_id(config) != self.run_id:
            raise ValueError(f"{run_id(config)} is not {self.run_id}")
        content = to_yaml(config)
        if content != (self.path / CONFIG_NAME).read_bytes():
            self.manifest.set_config(digest(content))
            write_atomically(self.path / CONFIG_NAME, content)
        self.__dict__.pop("config", None)

    def _current_attempt(self) -> int:
        if self._attempt is None:
            raise RuntimeError(f"{self.run_id}: begin_attempt() comes before metrics")
        return self._attempt

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

"""Evaluations of a run's checkpoints: ``evals/<benchmark>/<step>.json``, and per-question results beside it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.config import RunConfig
from harness.errors import UserError
from harness.store.files import PLACE, make_folder, write_atomically
from harness.store.plain import dumps

if TYPE_CHECKING:
    import pandas

SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def held_out_benchmark(config: RunConfig) -> str:
    """The benchmark whose result at the last step belongs to a finished run: written by the engine as it trains."""
    return "pocket" if config.data.source == "generated" else "held_out"


class Evaluations:
    """The evaluations of one run or model. ``option``: the setting that chooses another folder, for errors."""

    def __init__(self, folder: Path, option: str = PLACE) -> None:
        self.folder = folder
        self._option = option
        self._listeners: list[Callable[[Mapping[str, Any]], None]] = []

    def subscribe(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """Call ``listener`` with the content of each evaluation once it is stored."""
        self._listeners.append(listener)

    def path(self, benchmark: str, step: int) -> Path:
        if not _NAME.fullmatch(benchmark):
            raise ValueError(f"benchmark {benchmark!r} must be letters, digits, '_', '.' or '-'")
        return self.folder / benchmark / f"{int(step)}.json"

    def write(
        self, benchmark: str, step: int, results: Mapping[str, Any], per_question: pandas.DataFrame | None
    ) -> Path:
        """Store ``results`` (with ``n`` and ``metrics``); each file appears whole, the JSON last."""
        path = self.path(benchmark, step)
        missing = [key for key in ("n", "metrics") if key not in results]
        if missing:
            raise ValueError(f"results of {benchmark} at step {step} lack {missing}")
        make_folder(path.parent, self._option)
        if per_question is not None:
            buffer = io.BytesIO()
            per_question.to_parquet(buffer, index=False)
            write_atomically(path.with_suffix(".parquet"), buffer.getvalue(), self._option)
        content = {"schema": SCHEMA, "benchmark": benchmark, "step": int(step), **results}
        write_atomically(path, (dumps(content, indent=1) + "\n").encode(), self._option)
        for listener in self._listeners:
            listener(content)
        return path

    def read(self, benchmark: str, step: int) -> dict[str, Any]:
        path = self.path(benchmark, step)
        try:
            content = json.loads(path.read_bytes())
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror}); run the evaluation again") from error
        except ValueError as error:
            raise UserError(f"{path}: no valid JSON ({error}); delete it and run the evaluation again") from error
        return dict(content)

    def steps(self, benchmark: str) -> list[int]:
        """Steps with a stored result, ascending."""
        names = (path.stem for path in (self.folder / benchmark).glob("*.json"))
        return sorted(int(name) for name in names if name.isdigit())

    def benchmarks(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        return sorted(path.name for path in self.folder.iterdir() if path.is_dir())

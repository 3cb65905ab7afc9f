"""manifest.json: where a run comes from and what became of each attempt. Replaced atomically at every change."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.config import RunConfig, config_hash, identity, run_id
from harness.errors import UserError
from harness.store import provenance
from harness.store.evaluations import held_out_benchmark
from harness.store.files import write_atomically
from harness.store.plain import dumps, to_plain
from harness.store.process import this_process

NAME = "manifest.json"
SCHEMA = 1
OUTCOMES = ("finished", "interrupted", "failed")


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def first_manifest(config: RunConfig, config_sha256: str) -> bytes:
    """The manifest of a run that nobody has started."""
    content = {
        "schema": SCHEMA,
        "run_id": run_id(config),
        "created": timestamp(),
        "config_hash": config_hash(config),
        "config_sha256": config_sha256,
        "identity": identity(config),
        "steps": config.training.steps,
        "held_out_benchmark": held_out_benchmark(config),
        "seeds": {"seed": config.seed, "warm_start_seed": config.model.warm_start_seed},
        "records": {},
        "code": {},
        "attempts": [],
    }
    return (dumps(content, indent=1) + "\n").encode()


class Manifest:
    """The manifest of one run. Only the owner of the run's lock changes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME

    def read(self) -> dict[str, Any]:
        """Raises :class:`UserError` when the file is missing or damaged."""
        try:
            content = json.loads(self.path.read_bytes())
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read ({error.strerror}); restore it from a copy") from error
        except ValueError as error:
            raise UserError(f"{self.path}: no valid JSON ({error}); restore it from a copy") from error
        if not isinstance(content, dict) or content.get("schema") != SCHEMA or "attempts" not in content:
            raise UserError(f"{self.path}: not a manifest of this version; restore it from a copy")
        return content

    def record(self, key: str, value: Any) -> None:
        content = self.read()
        content["records"][key] = to_plain(value)
        self._write(content)

    def begin_attempt(self, info: Mapping[str, Any]) -> int:
        """Add an attempt; returns its number (from 1). The code's difference to its commit is stored once each."""
        content = self.read()
        state = dict(provenance.code_state())
        diff = state.pop("diff")
        if diff:
            content["code"].setdefault(state["diff_sha256"], diff)
        number = len(content["attempts"]) + 1
        entry = {
            "attempt": number,
            "start": timestamp(),
            "end": None,
            "outcome": None,
            "error": None,
            "pid": this_process().pid,
            "host": socket.gethostname(),
            "code": state,
            "machine": provenance.machine(),
            "packages": provenance.packages(),
            **to_plain(info),
        }
        content["attempts"].append(entry)
        self._write(content)
        return number

    def end_attempt(self, number: int, outcome: str, error: str | None) -> None:
        if outcome not in OUTCOMES:
            raise ValueError(f"outcome {outcome!r} must be one of {OUTCOMES}")
        content = self.read()
        entry = content["attempts"][number - 1]
        entry.update(end=timestamp(), outcome=outcome, error=error, seconds=_seconds_since(entry["start"]))
        self._write(content)

    def set_config(self, sha256: str) -> None:
        content = self.read()
        content["config_sha256"] = sha256
        self._write(content)

    def _write(self, content: dict[str, Any]) -> None:
        write_atomically(self.path, (dumps(content, indent=1) + "\n").encode())


def _seconds_since(start: str) -> float:
    return round(time.time() - datetime.fromisoformat(start).timestamp(), 1)

"""Checkpoints of a run: policy, optimiser, step. Atomic, the last few kept, no random state (there is none to keep)."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from harness.errors import UserError
from harness.store.files import explained, make_folder, write_atomically

SCHEMA = 1
_NAME = re.compile(r"step_(\d{6,})\.pt")


@dataclass(frozen=True)
class Checkpoint:
    """State after ``step`` steps. ``start`` is the SHA-256 of the weights training began with; ``responses_generated``
    counts all steps, filtered responses included."""

    step: int
    start: str
    responses_generated: int
    policy: dict[str, Any]
    optimizer: dict[str, Any]


def save(folder: Path, checkpoint: Checkpoint, keep: int, keep_for_evaluation: Collection[int] = ()) -> None:
    """Write a checkpoint durably, then delete all but the newest ``keep`` and those of ``keep_for_evaluation``."""
    content = io.BytesIO()
    torch.save({"schema": SCHEMA, **vars(checkpoint)}, content)
    make_folder(folder)
    write_atomically(folder / f"step_{checkpoint.step:06d}.pt", content.getvalue())
    for step, path in _stored(folder)[keep:]:
        if step not in keep_for_evaluation:
            path.unlink()


def latest(folder: Path, device: torch.device, report: Callable[[str], object]) -> Checkpoint | None:
    """The newest readable checkpoint, or None if there is none at all; ``report`` is told of each that cannot be read.
    UserError if not one can be."""
    stored = _stored(folder)
    for _, path in stored:
        try:
            content = torch.load(path, map_location=device, weights_only=True)
            if content.pop("schema") != SCHEMA:
                raise ValueError("written by another version of the harness")
            return Checkpoint(**content)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            report(f"{path.name} cannot be read ({reason}); trying an older checkpoint")
    if stored:
        raise UserError(f"{folder}: no checkpoint can be read; delete the files to train the run from its start")
    return None


def replace_folder(path: Path, write: Callable[[Path], object]) -> None:
    """``write(temporary)`` a folder next to ``path``, then put it in the place of ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    with explained(path):
        try:
            write(temporary)
            shutil.rmtree(path, ignore_errors=True)
            os.replace(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _stored(folder: Path) -> list[tuple[int, Path]]:
    """Steps and files of the checkpoints, newest first."""
    if not folder.is_dir():
        return []
    matches = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return sorted(((int(match.group(1)), path) for match, path in matches if match), reverse=True)

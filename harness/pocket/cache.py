"""Folders built once: named by the hash of all that determines them, published by one rename, built by one process.

A process that wants a folder while another builds it waits; a builder that dies leaves nothing behind that counts.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import harness
from harness.errors import UserError

VARIABLE = "DARA_CACHE"


def cache_root() -> Path:
    """``$DARA_CACHE``, else ``.cache/dara-harness`` of the checkout, else of the home folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    checkout = Path(harness.__file__).resolve().parents[1]
    base = checkout if (checkout / "pyproject.toml").exists() else Path.home()
    return base / ".cache" / "dara-harness"


def content_key(values: Mapping[str, Any], sources: Sequence[Path], packages: Sequence[str]) -> str:
    """First 16 hex digits of the SHA-256 of ``values`` (plain types), source files and package versions."""
    from importlib.metadata import version

    content = {
        "values": values,
        "sources": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources},
        "packages": {name: version(name) for name in packages},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def built(name: str, build: Callable[[Path], None], root: Path | None = None) -> Path:
    """The folder ``root / name``, made by ``build(empty folder)`` if it does not exist.

    Safe between processes of a machine and on file systems with POSIX locks. UserError when the cache can't be written.
    """
    root = cache_root() if root is None else root
    folder = root / name
    if folder.is_dir():
        return folder
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _exclusive(root / f"{name}.lock"):
            if not folder.is_dir():
                _build(folder, build)
    except OSError as error:
        raise UserError(
            f"cannot write the cache {root} ({error.strerror or error}); "
            f"free space there or set {VARIABLE} to another folder"
        ) from error
    return folder


def _build(folder: Path, build: Callable[[Path], None]) -> None:
    for left_over in folder.parent.glob(f"{folder.name}.part-*"):
        shutil.rmtree(left_over, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.part-", dir=folder.parent))
    try:
        build(part)
        part.chmod(0o755)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file; the kernel drops it when the process ends, however it ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""Files written whole or not at all, and what to tell a user when the disk says no."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from harness.errors import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PLACE = "output.runs=FOLDER"
"""The setting that chooses another place for what is written."""
_FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
_NOT_A_FOLDER = (errno.ENOTDIR, errno.EEXIST)


@contextlib.contextmanager
def explained(path: Path, option: str = PLACE) -> Iterator[None]:
    """Turn an :class:`OSError` of writing ``path`` into a :class:`UserError` with the remedy: ``option`` chooses
    another place."""
    try:
        yield
    except OSError as error:
        raise UserError(explanation(error, path, option)) from error


def explanation(error: OSError, path: Path, option: str = PLACE) -> str:
    """One line: what could not be written, why, and what to do about it."""
    place = error.filename or path
    if error.errno in _FULL:
        return (
            f"no space left to write {place} ({error.strerror}): free space or choose another disk with "
            f"{option}, then give the same command again; what was stored before is intact"
        )
    if error.errno in _FORBIDDEN:
        return f"cannot write {place} ({error.strerror}): make the folder writable or choose another one with {option}"
    if error.errno in _NOT_A_FOLDER:
        return (
            f"cannot use {place} ({error.strerror}): a file stands where a folder is needed; move it away or choose "
            f"another folder with {option}"
        )
    return f"cannot write {place} ({error.strerror or error}): see that it is reachable, then try again"


def write_atomically(path: Path, content: bytes, option: str = PLACE) -> None:
    """Replace ``path`` by ``content``: a reader sees the old file or the new one, also after a crash.

    Raises :class:`UserError` when the disk is full or the folder cannot be written; the old file is then unchanged.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with explained(path, option):
        try:
            with open(temporary, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def make_folder(path: Path, option: str = PLACE) -> None:
    """``mkdir -p`` that raises :class:`UserError`."""
    with explained(path, option):
        path.mkdir(parents=True, exist_ok=True)

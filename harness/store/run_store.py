"""All runs: a folder of folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path

from harness.config import RunConfig, run_id
from harness.errors import UserError, nearest
from harness.store.files import explained, make_folder
from harness.store.manifest import NAME as MANIFEST_NAME
from harness.store.manifest import first_manifest
from harness.store.run import FOLDERS, Run
from harness.store.stored_config import NAME as CONFIG_NAME
from harness.store.stored_config import digest, to_yaml


class RunStore:
    """``root`` holds one folder per run; it is made by the first :meth:`create`."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    def create(self, config: RunConfig) -> Run:
        """The run of ``config``, made if it is not there. A run's folder appears complete, whoever else makes it.

        Raises :class:`UserError` when the folder cannot be written.
        """
        path = self.root / run_id(config)
        if not path.exists():
            self._make(path, config)
        elif not path.is_dir():
            raise UserError(f"{path}: a file stands where the run's folder belongs; move it away")
        return Run(path)

    def find(self, config: RunConfig) -> Run | None:
        """The run of ``config`` if it was created."""
        path = self.root / run_id(config)
        return Run(path) if path.is_dir() else None

    def get(self, name: str) -> Run:
        """A run by its id. Raises :class:`UserError` naming the nearest one."""
        path = self.root / name
        if not name or name.startswith(".") or path.name != name or not path.is_dir():
            raise UserError(f"{self.root} has no run {name!r}: {nearest(name, (run.run_id for run in self.runs()))}")
        return Run(path)

    def runs(self) -> list[Run]:
        """Every run, by name. Folders that are no runs are left out."""
        try:
            entries = sorted(os.scandir(self.root), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UserError(f"{self.root}: {error.strerror}; give the folder of the runs") from error
        return [Run(Path(entry.path)) for entry in entries if _is_run(entry)]

    def _make(self, path: Path, config: RunConfig) -> None:
        make_folder(self.root)
        aside = self.root / f".new-{uuid.uuid4().hex}"
        try:
            with explained(aside):
                aside.mkdir()
                content = to_yaml(config)
                (aside / CONFIG_NAME).write_bytes(content)
                (aside / MANIFEST_NAME).write_bytes(first_manifest(config, digest(content)))
                for name in FOLDERS:
                    (aside / name).mkdir()
                with contextlib.suppress(FileExistsError):
                    _rename(aside, path)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _rename(source: Path, target: Path) -> None:
    try:
        os.rename(source, target)
    except OSError:
        if target.is_dir():  # somebody else made the same run
            raise FileExistsError(str(target)) from None
        raise


def _is_run(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or not entry.is_dir():
        return False
    return any(os.path.exists(os.path.join(entry.path, name)) for name in (CONFIG_NAME, MANIFEST_NAME))

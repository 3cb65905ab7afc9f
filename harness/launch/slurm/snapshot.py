"""The code that jobs run, frozen at submission: ``<runs>/.slurm/code/<commit>[-<hash of what differs>]/``.

Later edits, commits or a checkout of another branch never reach a queued job. ``code_state.json`` in the folder says
where it comes from; the store reads it instead of asking git.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import tarfile
import uuid
from pathlib import Path

from harness.errors import UserError
from harness.launch.slurm.submissions import FOLDER
from harness.store.files import explained, make_folder
from harness.store.provenance import CODE_ROOT, SNAPSHOT_STATE, code_state

MAX_UNTRACKED_BYTES = 10_000_000
"""Untracked files above this size are left out of a snapshot: they are data, not code."""


def snapshot(root: Path, *, require_clean: bool, code: Path = CODE_ROOT) -> Path:
    """The folder with a copy of the code as it is now; made once for each state. ``root``: the folder of the runs.

    Code that is no git checkout (an installed package) is used where it is. Raises :class:`UserError` when the tree
    has uncommitted changes and ``require_clean`` is set.
    """
    if (code / SNAPSHOT_STATE).exists() or _git(code, "ls-files", "--error-unmatch", "harness/__init__.py") is None:
        return code
    commit = (_git(code, "rev-parse", "HEAD") or b"").decode().strip()
    changed, untracked = _names(code, "diff", "HEAD", "--name-only", "--relative", "-z"), _untracked(code)
    if require_clean and (changed or untracked):
        first = (changed + untracked)[0]
        raise UserError(
            f"hydra.launcher.require_clean=true: {len(changed) + len(untracked)} files of {code} differ from commit "
            f"{commit[:10]} (e.g. {first}); commit them"
        )
    name = commit[:12]
    if changed or untracked:
        name += "-" + _digest(code, changed + untracked)
    folder = root / FOLDER / "code" / name
    if not folder.is_dir():
        _make(folder, code, changed + untracked)
    return folder


def _make(folder: Path, code: Path, differing: list[str]) -> None:
    aside = folder.with_name(f".new-{uuid.uuid4().hex}")
    make_folder(aside)
    try:
        with explained(aside):
            _export(code, aside)
            for name in differing:
                target, source = aside / name, code / name
                target.unlink(missing_ok=True)
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, target)
            (aside / SNAPSHOT_STATE).write_text(json.dumps(code_state()), encoding="utf-8")
            try:
                os.rename(aside, folder)
            except OSError:
                if not folder.is_dir():
                    raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _export(code: Path, target: Path) -> None:
    with subprocess.Popen(
        ["git", "-C", str(code), "archive", "--format=tar", "HEAD", "."], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            archive.extractall(target, filter="data")
    if process.returncode:
        raise UserError(f"git archive of {code} failed; see above")


def _untracked(code: Path) -> list[str]:
    names = _names(code, "ls-files", "--others", "--exclude-standard", "-z")
    kept = []
    for name in names:
        with contextlib.suppress(OSError):
            if (code / name).stat().st_size <= MAX_UNTRACKED_BYTES:
                kept.append(name)
    return kept


def _digest(code: Path, names: list[str]) -> str:
    content = hashlib.sha256()
    for name in sorted(names):
        content.update(name.encode() + b"\0")
        with contextlib.suppress(OSError):
            content.update((code / name).read_bytes())
    return content.hexdigest()[:10]


def _names(code: Path, *arguments: str) -> list[str]:
    output = _git(code, *arguments)
    return [name for name in (output or b"").decode(errors="surrogateescape").split("\0") if name]


def _git(code: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(["git", "-C", str(code), *arguments], capture_output=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None

"""What code, packages and machine an attempt ran with."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
import re
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

CODE_ROOT = Path(__file__).resolve().parents[2]
MAX_DIFF_CHARACTERS = 200_000
SNAPSHOT_STATE = "code_state.json"
"""In a copy of the code that was made for a job: what :func:`code_state` said where the copy was made."""


@functools.cache
def code_state() -> dict[str, Any]:
    """Commit, whether the tree differs from it, the difference itself (cut at ``MAX_DIFF_CHARACTERS``) and the names
    of files git does not know. Outside a git checkout ``commit`` is None. The caller must not change the result."""
    try:
        return dict(json.loads((CODE_ROOT / SNAPSHOT_STATE).read_bytes()))
    except (OSError, ValueError):
        pass
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return {"commit": None, "dirty": None, "diff": None, "diff_sha256": None, "untracked": []}
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-color") or ""
    untracked = (_git("ls-files", "--others", "--exclude-standard") or "").splitlines()
    return {
        "commit": commit,
        "dirty": bool(diff or untracked),
        "diff": diff if len(diff) <= MAX_DIFF_CHARACTERS else diff[:MAX_DIFF_CHARACTERS] + "\n[cut]",
        "diff_sha256": hashlib.sha256(diff.encode()).hexdigest() if diff else None,
        "untracked": untracked[:200],
    }


@functools.cache
def packages() -> dict[str, str]:
    """Name and version of every installed distribution that this project requires, directly or not through an extra,
    and of those that bring a method of their own."""
    found: dict[str, str] = {}
    waiting = ["dara-harness", "torch", "transformers", "numpy", "verl", "vllm", "ray"]
    waiting += [point.dist.name for point in metadata.entry_points(group="dara_harness.methods") if point.dist]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = distribution.version
        for requirement in distribution.requires or []:
            if "extra ==" not in requirement:
                waiting.append(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])
    return dict(sorted(found.items()))


@functools.cache
def machine() -> dict[str, Any]:
    return {
        "host": socket.gethostname(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "executable": sys.executable,
    }


def _git(*arguments: str) -> str | None:
    try:
        result = subprocess.run(["git", "-C", str(CODE_ROOT), *arguments], capture_output=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout.decode(errors="replace").strip("\n") if result.returncode == 0 else None

"""An environment of its own for bfcl-eval, whose pins nothing else can share; built once below the harness's cache.

bfcl-eval is installed without its dependencies (clients of every vendor, vLLM, sentence-transformers); the few that
its data loader, its checkers and its multi-turn classes import are listed here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness.errors import UserError
from harness.pocket.cache import built, cache_root, content_key

VERSION = "2026.3.23"
REQUIREMENTS = (
    f"bfcl-eval=={VERSION}",
    "filelock>=3.20",
    "mpmath==1.3.0",
    "overrides>=7",
    "tree_sitter==0.21.3",
    "tree-sitter-java==0.21.0",
    "tree-sitter-javascript==0.21.4",
)
SETUP = "python -m harness doctor bfcl"


def environment_name() -> str:
    values = {"requirements": list(REQUIREMENTS), "python": sys.version.split()[0], "base": sys.base_prefix}
    return f"bfcl-{content_key(values, [], [])}"


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def environment() -> Path:
    """The folder of the environment. UserError when it was not built."""
    folder = cache_root() / environment_name()
    if not python_of(folder).exists():
        raise UserError(f"bfcl-eval {VERSION} is not set up: run `{SETUP}`")
    return folder


def build() -> Path:
    """Build the environment if it is not there (pip downloads about 5 MB). UserError when pip fails."""
    return built(environment_name(), _build)


def _build(folder: Path) -> None:
    # Virtual environments know their own path, so this one is made where it will be after the rename: only the
    # interpreter link and the packages are used, never the scripts.
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    _run([str(base if base.exists() else sys.executable), "-m", "venv", "--copies", "--without-pip", str(folder)])
    target = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    _run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-compile",
            "--target",
            str(target),
            *REQUIREMENTS,
        ]
    )


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = next((line for line in reversed(lines) if "ERROR" in line), lines[-1] if lines else "no message")
        raise UserError(
            f"the environment of bfcl-eval could not be built ({reason[:300]}); see that pip reaches a package index, "
            f"then run `{SETUP}` again"
        )

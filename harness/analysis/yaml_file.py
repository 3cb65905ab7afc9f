"""YAML that people write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from harness.errors import UserError


def read_yaml(path: Path, remedy: str) -> Any:
    """The content. UserError naming the file where it cannot be read (with ``remedy``) or is no YAML."""
    try:
        return yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); {remedy}") from error
    except yaml.YAMLError as error:
        raise UserError(f"{path}: no valid YAML ({' '.join(str(error).split())})") from error

"""config.yaml of a run: written once, checked against the name of its folder whenever it is read."""

from __future__ import annotations

import hashlib
from pathlib import Path

import yaml

from harness.compose import run_config_from_mapping, run_config_to_mapping
from harness.config import RunConfig, run_id
from harness.errors import UserError
from harness.store.plain import to_plain

NAME = "config.yaml"
_HEADER = """\
# The resolved configuration of this run; its hash is part of the folder's name. To change anything, start a new run
# from conf/ or the command line.
"""
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def to_yaml(config: RunConfig) -> bytes:
    content = to_plain(run_config_to_mapping(config))
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return (_HEADER + text).encode()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_config(folder: Path) -> RunConfig:
    """Raises :class:`UserError` when the file is missing, unreadable, or no longer what the folder's name says."""
    path = folder / NAME
    try:
        mapping = yaml.load(path.read_bytes(), Loader=_Loader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); restore it or delete the folder") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path}: no valid YAML ({' '.join(str(error).split())}); restore it") from error
    if not isinstance(mapping, dict):
        raise UserError(f"{path}: must be a mapping of keys; restore it")
    if isinstance(mapping.get("data"), dict):
        mapping["data"].setdefault("root", None)  # configurations stored before this key
    try:
        config = run_config_from_mapping(mapping)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    if run_id(config) != folder.name:
        raise UserError(
            f"{path} was edited or its folder renamed: it describes {run_id(config)}; undo the change, or give the "
            f"changed settings on the command line, which starts a run of its own"
        )
    return config

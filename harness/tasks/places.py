"""Where data lie on this machine."""

from __future__ import annotations

from pathlib import Path

from harness.pocket.cache import cache_root


def data_root(chosen: str | None) -> Path:
    """The chosen folder (``data.root``), else ``data`` in the harness's cache (``DARA_CACHE``)."""
    return Path(chosen).expanduser().absolute() if chosen else cache_root() / "data"

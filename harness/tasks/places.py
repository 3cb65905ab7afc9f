"""Where data lie on this machine."""

from __future__ import annotations

from pathlib import Path


def data_root(chosen: str | None) -> Path:
    """The chosen folder (``data.root``), else ``data`` in the harness's cache (``DARA_CACHE``)."""
    if chosen:
        return Path(chosen).expanduser().absolute()
    from harness.pocket.cache import cache_root

    return cache_root() / "data"

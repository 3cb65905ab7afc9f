"""When a worker should stop: it was asked to, its launcher is gone, or its run was taken over."""

from __future__ import annotations

import os
import signal
from types import FrameType


class StopRequest:
    """Called by the engine after each step; true means: save and return. ``reason`` then says why.

    The first SIGTERM or SIGINT asks for this; a second one raises KeyboardInterrupt, which leaves the run at its last
    checkpoint.
    """

    def __init__(self, parent: int | None) -> None:
        """``parent``: stop when this process is no longer the parent."""
        self.reason = ""
        self._parent = parent

    def __call__(self) -> bool:
        if not self.reason and self._parent is not None and os.getppid() != self._parent:
            self.reason = "its launcher is gone"
        return bool(self.reason)

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._receive)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self.reason:
            raise KeyboardInterrupt
        self.reason = f"asked to stop ({signal.Signals(number).name})"

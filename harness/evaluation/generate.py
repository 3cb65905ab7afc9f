"""The first stage: ask a backend for every output that is not stored yet."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from harness.errors import UserError
from harness.evaluation.outputs import Writer
from harness.evaluation.sampling import Backend, Generation, Request, Sampling


class Progress:
    """A line on stderr: rewritten on a terminal, else repeated now and then."""

    def __init__(self, title: str, total: int, done: int = 0) -> None:
        self.title, self.total, self.done = title, total, done
        self._begun, self._first = time.monotonic(), done
        self._shown = 0.0
        self._terminal = sys.stderr.isatty()

    def step(self, *, show: bool = True) -> None:
        """One more is done; ``show=False`` where many are done at once, and a rate would say nothing."""
        self.done += 1
        if show:
            self.show()

    def show(self) -> None:
        now = time.monotonic()
        if now - self._shown >= (0.2 if self._terminal else 30.0) or self.done == self.total:
            self._shown = now
            self._show(now - self._begun)

    def _show(self, seconds: float) -> None:
        text = f"{self.title}: {self.done}/{self.total}"
        if self.done > self._first:
            rate = (self.done - self._first) / max(seconds, 1e-6)
            text += f", {rate:.0f}/s" if rate >= 10 else f", {rate:.2g}/s"
            text += f", {(self.total - self.done) / rate:.0f} s left"
        end = "\n" if not self._terminal or self.done == self.total else ""
        print(("\r" if self._terminal else "") + text, end=end, file=sys.stderr, flush=True)


def generate(
    backend: Backend, requests: Sequence[Request], sampling: Sampling, writer: Writer, progress: Progress
) -> None:
    """Outputs to all ``requests`` in ``writer``. Blocks are cut from the whole list, stored outputs included, so that
    a resumed evaluation computes what an uninterrupted one would have."""
    wanted = {request.key: request for request in requests}
    stored = {key for key, request in wanted.items() if writer.content.answer(request) is not None}

    def emit(generation: Generation) -> None:
        if generation.key in stored:
            return
        writer.add(wanted[generation.key], generation)
        stored.add(generation.key)
        progress.step(show=backend.block is None)

    if len(stored) < len(wanted):
        progress.show()
    if backend.block is None:
        backend.generate([request for request in requests if request.key not in stored], sampling, emit)
    else:
        for start in range(0, len(requests), backend.block):
            block = requests[start : start + backend.block]
            if any(request.key not in stored for request in block):
                backend.generate(block, sampling, emit)
                progress.show()
    lacking = len(wanted) - len(stored)
    if lacking:
        raise UserError(f"{lacking} of {len(wanted)} outputs were not generated; give the same command again")

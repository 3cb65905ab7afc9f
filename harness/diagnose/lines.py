"""The lines of a part of a file, in blocks that are never copied: a block lies in a buffer that the next one reuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import RawIOBase
from typing import IO

BLOCK = 1 << 20
"""Bytes of a buffer, which fits into the processor's cache; it grows to the longest line."""


def line_blocks(file: RawIOBase, start: int, end: int) -> Iterator[tuple[bytearray, int, int]]:
    """(buffer, first, stop): bytes ``first`` to ``stop`` of the buffer are whole lines, together those that begin in
    bytes ``start`` to ``end`` of the file. Only the last line of the file may lack its line end.

    A buffer is valid until the next one is asked for."""
    buffer = bytearray(BLOCK)
    place, filled = max(start - 1, 0), 0  # the place in the file where the buffer begins
    skipping = start > 0  # to the first line that begins at start or later
    file.seek(place)
    while True:
        read = file.readinto(memoryview(buffer)[filled:])
        filled += read or 0
        first = 0
        if skipping:
            first = buffer.find(b"\n", 0, filled) + 1
            skipping = first == 0
            if skipping and read:
                place, filled = place + filled, 0
                continue
            if skipping or place + first >= end:
                return
        if not read:
            if first < filled:
                yield buffer, first, filled
            return
        last = place + filled >= end
        stop = buffer.find(b"\n", max(end - 1 - place, first), filled) + 1 if last else 0
        if stop:
            yield buffer, first, stop
            return
        stop = buffer.rfind(b"\n", first, filled) + 1
        if stop:
            yield buffer, first, stop
        kept = buffer[max(stop, first) : filled]
        place, filled = place + filled - len(kept), len(kept)
        if filled == len(buffer):
            buffer = kept + bytearray(filled)
        else:
            buffer[:filled] = kept


def read_ahead(file: IO[bytes], start: int, size: int) -> None:
    """Let the system fetch these bytes, which another process is going to read, while nobody waits for them."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), start, size, os.POSIX_FADV_WILLNEED)

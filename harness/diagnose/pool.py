"""Processes that share the work on a large log."""

from __future__ import annotations

import gc
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor

MOST = 8
"""More processes than this would wait for the disk."""


def _processors() -> int:
    """Those that this process may use, which on a shared machine are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


WORKERS = min(_processors(), MOST)


def pool_of(workers: int) -> ProcessPoolExecutor:
    """Forked where that exists, so that nothing is imported again. Without the collector of cycles: millions of small
    objects are made and dropped, and none refers to itself."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if "fork" in methods else None)
    return ProcessPoolExecutor(workers, mp_context=context, initializer=gc.disable)

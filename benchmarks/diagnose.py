"""Speed and memory of `python -m harness diagnose`: a million responses, and lines with 4 kB of text.

``python benchmarks/diagnose.py [--responses N ...] [--text BYTES ...] [--repeat N] [--folder DIR]`` writes logs, reads
each as a user does, and prints wall and processor time of the command and its readers, and the peak memory of the
largest process and of all together; beside them the time that reading the same bytes takes alone, with the file in the
page cache and without; and what texts of 4 kB cost beyond short ones of as many responses. Prints figures with their
targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

GROUP = 8
BATCH = 256
CHANNELS = ("correctness", "format", "length")


def write(path: Path, responses: int, text: int) -> None:
    """A log of steps of 256 groups of 8; ``text``: bytes of each response's text, escapes among them."""
    rng = np.random.default_rng(0)
    filler = ('Then \\"x\\" follows,\\nso the next line is longer. ' * (text // 40 + 1))[:text].rstrip("\\")
    with open(path, "w", encoding="utf-8", buffering=1 << 20) as file:
        written = step = 0
        while written < responses:
            step += 1
            count = min(GROUP * BATCH, responses - written)
            rates = np.repeat(rng.beta(0.5, 0.5, size=(BATCH, 3)), GROUP, axis=0)
            rewards = (rng.random((GROUP * BATCH, 3)) < rates).astype(float)
            lengths = rng.integers(5, 900, GROUP * BATCH)
            for row in range(count):
                a, b, c = rewards[row].tolist()
                file.write(
                    f'{{"step": {step}, "uid": "q-{step}-{row // GROUP}", "input": "problem number {row // GROUP}", '
                    f'"output": "{filler}", "gts": "42", "score": {a + b + c}, "attempt": 1, "correctness": {a}, '
                    f'"format": {b}, "length": {c}, "response_tokens": {lengths[row]}}}\n'
                )
            written += count


def memory(pid: int) -> list[float]:
    """MiB in use of a process and its children."""
    pids = [pid]
    for parent in pids:
        try:
            for thread in Path(f"/proc/{parent}/task").iterdir():
                pids += [int(child) for child in (thread / "children").read_text().split()]
        except OSError:
            continue
    found = []
    for one in pids:
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            found.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
        except (OSError, StopIteration):
            continue
    return found


def run(path: Path) -> tuple[float, float, float, float]:
    """Wall seconds, processor seconds, MiB of the largest process and of all together at their peaks."""
    bounds = [item for name in CHANNELS for item in ("--bounds", f"{name}=0,1")]
    begun, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", "diagnose", str(path), *bounds], stdout=subprocess.DEVNULL
    )
    peaks = [0.0, 0.0]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            used = memory(process.pid)
            if used:
                peaks[0], peaks[1] = max(peaks[0], *used), max(peaks[1], sum(used))

    watcher = threading.Thread(target=watch)
    watcher.start()
    if process.wait() != 0:
        print("diagnose failed")
    wall, after = time.perf_counter() - begun, os.times()
    done.set()
    watcher.join()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent, peaks[0], peaks[1]


def reading(path: Path) -> float:
    """Seconds to read the bytes and do nothing with them."""
    begun = time.perf_counter()
    buffer = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begun


def forget(path: Path) -> None:
    """Out of the page cache: the next reader waits for the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(path: Path, cold: bool, repeat: int) -> tuple[float, float]:
    """A line of figures: medians of ``repeat`` rounds, in each of which the bytes are read alone and by the command.
    Returned are the seconds of the two."""
    size = path.stat().st_size / 1e6
    alone, rounds = [], []
    for _ in range(repeat):
        for measured, what in ((alone, reading), (rounds, run)):
            if cold:
                forget(path)
            measured.append(what(path))
    once = float(np.median(alone))
    wall, spent, largest, together = np.median(rounds, axis=0)
    print(
        f"  {'cold' if cold else 'warm'} cache: reading alone {once:.2f} s ({size / once:,.0f} MB/s), "
        f"diagnose {wall:.2f} s ({size / wall:,.0f} MB/s, {wall / once:.1f} times), processor {spent:.2f} s, "
        f"largest process {largest:.0f} MiB, all together {together:.0f} MiB"
    )
    return once, float(wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, nargs="*", default=[1_000_000, 300_000, 300_000])
    parser.add_argument(
        "--text",
        type=int,
        nargs="*",
        default=[100, 100, 4000],
        help="bytes of text in a line, beside 200; shorter first",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the log is written (default: a temporary one)")
    args = parser.parse_args()
    seconds: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for responses, text in zip(args.responses, args.text, strict=True):
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            path = Path(folder) / "log.jsonl"
            write(path, responses, text)
            size = path.stat().st_size
            print(f"{responses:,} responses, {size / 1e6:,.0f} MB, {size / responses:.0f} bytes a line")
            for cold in (True, False):
                seconds.setdefault((responses, cold), []).append(compare(path, cold, args.repeat))
    for (responses, cold), found in seconds.items():
        for short, long in itertools.pairwise(found):
            alone, more = long[0] - short[0], long[1] - short[1]
            print(
                f"{responses:,} responses, {'cold' if cold else 'warm'} cache: longer texts take {more:.2f} s more; "
                f"to read them alone takes {alone:.2f} s ({more / alone:.1f} times)"
            )
    print("targets: a million of 300 bytes in 15 s on 2 cores, at most 1,024 MiB; 4 kB: texts as fast as reading")


if __name__ == "__main__":
    main()

"""Speed and memory of `python -m harness diagnose`: a million responses, and lines with 4 kB of text.

``python benchmarks/diagnose.py [--responses N] [--text BYTES] [--folder DIR]`` writes a log, runs the command on it as
a user does, and prints wall and processor time of the command and its readers, and the peak memory of the largest
process and of all together. Reading the bytes alone is timed as well. Prints figures with their targets, asserts
nothing.
"""

from __future__ import annotations

import argparse
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
    begun = time.perf_counter()
    with open(path, "rb", buffering=0) as file:
        while file.read(8 << 20):
            pass
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--responses", type=int, default=1_000_000)
    parser.add_argument("--text", type=int, default=100, help="bytes of text in a line (default 100: 300 in all)")
    parser.add_argument("--folder", type=Path, help="where the log is written (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        path = Path(folder) / "log.jsonl"
        write(path, args.responses, args.text)
        size = path.stat().st_size
        once = reading(path)
        wall, spent, largest, together = run(path)
        print(f"{args.responses:,} responses, {size / 1e6:,.0f} MB, {size / args.responses:.0f} bytes a line")
        print(f"wall {wall:.1f} s, processor {spent:.1f} s, over several processes")
        print("   (target for 1,000,000 of 300 bytes: at most 15 s on 2 cores)")
        print(f"memory {largest:.0f} MiB in the largest process, {together:.0f} MiB together (target: at most 1,024)")
        print(f"reading the bytes alone: {once:.1f} s, {size / 1e6 / wall:.0f} MB/s in all")


if __name__ == "__main__":
    main()

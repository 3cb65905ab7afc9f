"""Time of a multi-reward estimator inside verl at the paper's scale, beside upstream's gdpo; cost of a pocket run.

    python benchmarks/verl_engine.py estimator
    python benchmarks/verl_engine.py pocket [--steps N] [--keep DIR] [KEY=VALUE ...]

``estimator``: 2,048 responses x 2 rewards, 1,024 tokens, groups of 4, one thread. ``pocket``: trains the pocket task on
the CPU with 64 responses a step through ``harness/run.py`` and reports start-up, seconds of a step and of its parts,
and the memory of all its processes together, sampled twice a second: PSS (shared pages counted once) and RSS. Prints
figures with their targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.engines.verl.estimators import ChannelBatch, channels_of_batch, make_estimator
from harness.store import RunStore

RESPONSES, TOKENS, GROUP = 2048, 1024, 4
STEP_SECONDS = 2.5 * 3600 / 100
"""A step of the paper's smallest runs: 100 steps in about 2.5 hours."""
SHARE = 1e-3
POCKET_STEP_SECONDS, POCKET_RUN_SECONDS, POCKET_GIBIBYTES = 2.0, 180.0, 6.0
MARK = "DARA_BENCHMARK"
SAMPLE_SECONDS = 0.5


def median_milliseconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """By the clock, and of processor time: on a busy machine the two differ."""
    call()
    clock, processor = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        call()
        clock.append(time.perf_counter() - start)
        processor.append(time.process_time() - used)
    return 1000 * statistics.median(clock), 1000 * statistics.median(processor)


def material() -> tuple[list[dict[str, float]], torch.Tensor, torch.Tensor, np.ndarray]:
    generator = np.random.default_rng(0)
    correctness = generator.choice([-3.0, 0.3, 1.5, 3.0], RESPONSES)
    formats = (generator.random(RESPONSES) < 0.05) * 1.0
    infos = [
        {"score": float(a + b), "correctness": float(a), "format": float(b)}
        for a, b in zip(correctness, formats, strict=True)
    ]
    lengths = torch.as_tensor(generator.integers(50, TOKENS + 1, RESPONSES))
    mask = (torch.arange(TOKENS)[None, :] < lengths[:, None]).long()
    rewards = torch.zeros(RESPONSES, TOKENS)
    rewards[torch.arange(RESPONSES), lengths - 1] = torch.as_tensor(correctness + formats, dtype=torch.float32)
    return infos, mask, rewards, np.array([f"uid-{row // GROUP}" for row in range(RESPONSES)], dtype=object)


def ours(method: str) -> Callable[[], Any]:
    infos, mask, rewards, index = material()
    estimator = make_estimator(method)
    config = {"reward_keys": ["correctness", "format"], "normalization": "token", "method_parameters": {}}

    def call() -> None:
        batch = ChannelBatch(infos, np.zeros(RESPONSES, dtype=bool), [(str(row), 0) for row in range(RESPONSES)])
        with channels_of_batch(batch):
            estimator(token_level_rewards=rewards, response_mask=mask, config=config, index=index)

    return call


def upstream_gdpo() -> Callable[[], Any] | None:
    """verl's estimator on the same batch; None without verl."""
    try:
        importlib.metadata.version("verl")
    except importlib.metadata.PackageNotFoundError:
        return None
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "harness.engines.verl.cpu_platform")
    from verl.trainer.ppo.core_algos import compute_gdpo_outcome_advantage

    infos, mask, rewards, index = material()
    keys = ["correctness", "format"]
    batch = {"prompts": torch.zeros(RESPONSES, 1), "attention_mask": torch.cat([torch.ones(RESPONSES, 1), mask], 1)}
    batch["attention_mask"] = batch["attention_mask"].long()
    columns = {key: np.array([info[key] for info in infos]) for key in keys}

    def call() -> None:
        compute_gdpo_outcome_advantage(
            rewards, mask, index, config={"gdpo_reward_keys": keys}, non_tensor_batch=columns, batch=batch
        )

    return call


def estimator() -> None:
    torch.set_num_threads(1)
    limit = 1000 * STEP_SECONDS * SHARE
    print(f"estimator, {RESPONSES} x 2 rewards, {TOKENS} tokens, one thread; target at most {limit:.0f} ms (0.1 %)")
    for method in ("dara_asym", "dara_sym", "dvao", "gdpo", "grpo", "gd2po_hard"):
        _show(method, median_milliseconds(ours(method), 15))
    upstream = upstream_gdpo()
    if upstream is None:
        print("  verl is not installed: no figure for its gdpo")
    else:
        _show("verl's gdpo", median_milliseconds(upstream, 5))


def _show(name: str, milliseconds: tuple[float, float]) -> None:
    print(f"  {name:<12} {milliseconds[0]:8.1f} ms by the clock, {milliseconds[1]:8.1f} ms of processor time")


class Memory(threading.Thread):
    """Highest sum over all processes whose environment has the mark, in bytes."""

    def __init__(self, mark: str) -> None:
        super().__init__(daemon=True)
        self.mark = f"{MARK}={mark}".encode()
        self.pss = self.rss = self.processes = 0
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(SAMPLE_SECONDS):
            found = [self._of(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
            present = [item for item in found if item is not None]
            self.pss = max(self.pss, sum(pss for pss, _ in present))
            self.rss = max(self.rss, sum(rss for _, rss in present))
            self.processes = max(self.processes, len(present))

    def _of(self, process: Path) -> tuple[int, int] | None:
        try:
            if self.mark not in (process / "environ").read_bytes().split(b"\0"):
                return None
            text = (process / "smaps_rollup").read_text()
        except OSError:
            return None
        sizes = dict(re.findall(r"^(Pss|Rss):\s+(\d+) kB", text, re.MULTILINE))
        return 1024 * int(sizes.get("Pss", 0)), 1024 * int(sizes.get("Rss", 0))


def pocket(steps: int, folder: Path, overrides: list[str]) -> None:
    mark = uuid.uuid4().hex
    memory = Memory(mark)
    command = [
        sys.executable,
        "harness/run.py",
        "-m",
        "engine=verl",
        "engine.device=cpu",
        "engine.gpus_per_node=1",
        "training.responses_per_step=64",
        f"training.steps={steps}",
        f"output.runs={folder}",
        "hydra.launcher.workers=1",
        *overrides,
    ]
    memory.start()
    load = os.getloadavg()[0]
    start, begun = time.monotonic(), time.time()
    ended = subprocess.run(command, env={**os.environ, MARK: mark}, stdout=subprocess.DEVNULL, check=False)
    whole = time.monotonic() - start
    memory.ended.set()
    memory.join()
    print(f"{os.cpu_count()} processors; load before {load:.1f} (of others), at the end {os.getloadavg()[0]:.1f}")
    (run,) = RunStore(folder).runs()
    rows = run.metrics.rows()
    print(f"{' '.join(command[1:])}\n  exit code {ended.returncode}, {run.status().state}, {len(rows)} steps")
    if not rows:
        return
    first = (run.path / "evals" / "pocket" / "0.json").stat().st_mtime - begun
    after = [row["seconds"] for row in rows[1:]]
    print(f"  start-up, up to and with the first evaluation  {first:7.1f} s")
    print(f"  the first step                                 {rows[0]['seconds']:7.2f} s")
    print(
        f"  a step after that, 64 responses                {statistics.median(after):7.2f} s median, "
        f"{min(after):.2f} to {max(after):.2f}; target {POCKET_STEP_SECONDS:.0f} s"
    )
    log = sorted((run.path / "verl").glob("attempt_*.log"))[-1].read_text(errors="replace")
    parts: dict[str, list[float]] = {}
    for name, seconds in re.findall(r"timing_s/(\w+):([0-9.]+)", log):
        parts.setdefault(name, []).append(float(seconds))
    for name, seconds in parts.items():
        print(f"    {name:<20} {statistics.median(seconds):7.3f} s median of {len(seconds)}")
    print(f"  whole command                                  {whole:7.1f} s; target {POCKET_RUN_SECONDS:.0f} s")
    gibibyte = 2**30
    print(
        f"  peak memory of {memory.processes} processes: {memory.pss / gibibyte:.2f} GiB PSS, "
        f"{memory.rss / gibibyte:.2f} GiB RSS; target {POCKET_GIBIBYTES:.0f} GiB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("estimator", "pocket"))
    parser.add_argument("--steps", type=int, default=10, help="of the pocket run (default %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for the pocket run (default: a temporary one)")
    parser.add_argument("overrides", nargs="*", help="further overrides of the pocket run, KEY=VALUE")
    arguments = parser.parse_args()
    if arguments.what == "estimator":
        estimator()
        return
    with tempfile.TemporaryDirectory() as folder:
        pocket(arguments.steps, arguments.keep or Path(folder), arguments.overrides)


if __name__ == "__main__":
    main()

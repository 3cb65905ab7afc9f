"""Time of a multi-reward estimator inside verl at the paper's scale, beside upstream's gdpo, and of a pocket step.

``python benchmarks/verl_engine.py [RUN_DIR]``: 2,048 responses x 2 rewards, 1,024 tokens, groups of 4. With the folder
of a finished ``engine=verl`` run also the seconds of its steps. Prints figures with their targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness.engines.verl.estimators import ChannelBatch, channels_of_batch, make_estimator

RESPONSES, TOKENS, GROUP = 2048, 1024, 4
STEP_SECONDS = 2.5 * 3600 / 100
"""A step of the paper's smallest runs: 100 steps in about 2.5 hours."""
SHARE = 1e-3
POCKET_STEP_SECONDS = 2.0


def median_milliseconds(call: Callable[[], Any], repeats: int) -> float:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run_dir", nargs="?", type=Path, help="a finished run of engine=verl")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    limit = 1000 * STEP_SECONDS * SHARE
    print(f"estimator, {RESPONSES} x 2 rewards, {TOKENS} tokens, one thread; target at most {limit:.0f} ms (0.1 %)")
    for method in ("dara_asym", "gdpo", "grpo", "gd2po_hard"):
        print(f"  {method:<12} {median_milliseconds(ours(method), 15):8.1f} ms")
    upstream = upstream_gdpo()
    if upstream is None:
        print("  verl is not installed: no figure for its gdpo")
    else:
        print(f"  verl's gdpo  {median_milliseconds(upstream, 3):8.1f} ms")
    if arguments.run_dir is not None:
        rows = [json.loads(line) for line in (arguments.run_dir / "metrics.jsonl").read_text().splitlines()]
        after = [row["seconds"] for row in rows[1:]]
        responses = [row["responses_generated"] for row in rows]
        print(
            f"pocket: {len(rows)} steps, {responses[0]} responses in the first; a step after the first takes "
            f"{statistics.median(after):.2f} s (median), target {POCKET_STEP_SECONDS:.0f} s for 64 responses"
        )


if __name__ == "__main__":
    main()

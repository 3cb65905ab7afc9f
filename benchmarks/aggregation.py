"""Speed of aggregate(): milliseconds per method and batch, growth with N, and the ratio to verl's gdpo estimator.

``python benchmarks/aggregation.py [--million]``; verl's estimator is timed if verl is installed, otherwise its loop is
left out. Prints figures with their targets, asserts nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.aggregation import aggregate, method_names

RATES = {"correctness": 0.5, "format": 0.05, "length": 0.8}


def batch(responses: int, channels: int, group_size: int = 4) -> tuple[dict[str, Any], Any, Any]:
    rng = np.random.default_rng(0)
    rewards = {name: (rng.random(responses) < RATES[name]) * 1.0 for name in list(RATES)[:channels]}
    groups = [f"uid-{row // group_size}" for row in range(responses)]
    return rewards, groups, rng.integers(1, 1000, responses)


def needed(method: str, channels: list[str]) -> dict[str, Any]:
    if method in ("saw", "saw_grpo", "sa_mrpo"):
        return {"bounds": dict.fromkeys(channels, (0, 1))}
    if method.startswith("static"):
        return {"weights": dict.fromkeys(channels, 2.0)}
    return {}


def milliseconds(call: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """The best wall and processor time of ``repeats`` calls, after one to warm up; they part on a busy machine."""
    call()
    wall, processor = [], []
    for _ in range(repeats):
        begun = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - begun[0])
        processor.append(time.process_time() - begun[1])
    return 1e3 * min(wall), 1e3 * min(processor)


def timed(method: str, responses: int, channels: int, repeats: int) -> tuple[float, float]:
    rewards, groups, lengths = batch(responses, channels)
    names = list(rewards)
    parameters = needed(method, names)
    return milliseconds(
        lambda: aggregate(
            method, rewards, groups, channels=names, lengths=lengths, normalization="token", **parameters
        ),
        repeats,
    )


def verl_gdpo(responses: int) -> tuple[float, float] | None:
    """Milliseconds of verl's gdpo estimator on the same rewards, two channels; None without verl."""
    if importlib.util.find_spec("verl") is None:
        return None
    import torch
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    rewards, groups, _ = batch(responses, 2)
    width = 16
    mask = torch.ones(responses, width)
    token_rewards = torch.zeros(responses, width)
    token_rewards[:, -1] = torch.tensor(sum(rewards.values()))
    arguments = {
        "token_level_rewards": token_rewards,
        "response_mask": mask,
        "index": np.array(groups, dtype=object),
        "config": {"gdpo_reward_keys": list(rewards), "gdpo_reward_weights": None},
        "non_tensor_batch": {name: np.array(values) for name, values in rewards.items()},
        "batch": {
            "prompts": torch.zeros(responses, 4, dtype=torch.long),
            "attention_mask": torch.ones(responses, 4 + width, dtype=torch.long),
        },
    }
    estimator = get_adv_estimator_fn("gdpo")
    return milliseconds(lambda: estimator(**arguments), 5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--million", action="store_true", help="also every method on 1,000,000 x 3")
    arguments = parser.parse_args()
    print("best wall time (processor time)")
    small = timed("dara_asym", 2048, 2, 200)
    print(f"dara_asym, 2,048 x 2: {shown(small)} (target <= 2 ms)")
    theirs = verl_gdpo(2048)
    if theirs is None:
        print("verl is not installed here: no comparison with its gdpo estimator (target >= 50 times faster)")
    else:
        ratio = theirs[1] / small[1]
        print(f"verl's gdpo estimator, same batch: {shown(theirs)}, by processor time {ratio:.0f} times (target >= 50)")
    for method in method_names():
        print(f"{method}, 2,048 x 3: {shown(timed(method, 2048, 3, 100))} (target <= 3 ms)")
    for responses in (10_000, 100_000, 1_000_000):
        spent = timed("dara_asym", responses, 3, 5)
        print(f"dara_asym, {responses:,} x 3: {shown(spent)}, {1e3 * spent[1] / responses:.2f} us a response")
    print("   (target <= 1,500 ms for 1,000,000; linear in N: the last column stays)")
    if arguments.million:
        for method in method_names():
            print(f"{method}, 1,000,000 x 3: {shown(timed(method, 1_000_000, 3, 2))} (target <= 2,000 ms)")


def shown(spent: tuple[float, float]) -> str:
    return f"{spent[0]:,.2f} ms ({spent[1]:,.2f})"


if __name__ == "__main__":
    main()

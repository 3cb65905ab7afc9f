"""Figures of the base policies before any reinforcement learning, and what a warm start costs.

    python benchmarks/pocket_base.py [--task tool_calling_three] [--warm-start-seed 0] [--examples 3]

2,048 samples: 512 held-out prompts, 4 responses each. Targets are those of the rule in docs/pocket.md.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from harness.compose import composing
from harness.engines.local.policy import load_policy, sample
from harness.pocket import PocketTask, pocket_task
from harness.rewards.batch import score_batch

PROMPTS, GROUP = 512, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="tool_calling_three")
    parser.add_argument("--warm-start-seed", type=int, default=0)
    parser.add_argument("--examples", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with composing() as composer:
        config = composer.compose([f"task={arguments.task}", f"model.warm_start_seed={arguments.warm_start_seed}"])
    task = pocket_task(config)
    wall, processor = time.perf_counter(), time.process_time()
    print(f"checkpoint {task.checkpoint}")
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"warm start {wall:.1f} s, {processor:.1f} s of processor (target: at most 45 s; about 0 when cached)")
    figures(task, config.training.max_response_tokens, arguments.examples)


def figures(task: PocketTask, max_response_tokens: int, examples: int) -> None:
    policy, tokenizer = load_policy(task.checkpoint), task.tokenizer
    print(f"parameters {sum(weight.numel() for weight in policy.parameters()):,}, vocabulary {tokenizer.size}")
    prompts = task.evaluation_prompts(PROMPTS)
    rollout = sample(
        policy,
        [tokenizer.encode_prompt(prompt.text) for prompt in prompts],
        GROUP,
        torch.Generator().manual_seed(1),
        eos_id=tokenizer.eos_id,
        max_new_tokens=max_response_tokens,
        temperature=1.0,
        top_p=1.0,
    )
    lengths = rollout.lengths.tolist()
    texts = [tokenizer.decode(rollout.tokens[row, :length].tolist()) for row, length in enumerate(lengths)]
    scores = score_batch(
        task.reward_task,
        texts,
        [prompt.reference for prompt in prompts for _ in range(GROUP)],
        lengths,
        length_limit=task.length_limit,
        max_response_tokens=max_response_tokens,
    )
    entropy = -float(rollout.log_probabilities.sum() / rollout.lengths.sum())
    print(f"response {np.mean(lengths):.1f} tokens, entropy {entropy:.3f} per token (estimated from samples)")
    for name, values in scores.channels.items():
        groups = values.reshape(PROMPTS, GROUP)
        print(
            f"{name}: mean {values.mean():.4f}, density {np.mean(np.ptp(groups, axis=1) > 0):.4f}, "
            f"at the lowest value {np.mean(values == values.min()):.4f}, "
            f"at the highest {np.mean(values == values.max()):.4f}"
        )
    for kind, flags in scores.failures.items():
        print(f"failure {kind}: {flags.mean():.4f}")
    correlations(task, texts, scores.channels)
    for row in range(0, examples * GROUP, GROUP):
        print(f"{prompts[row // GROUP].text!r} -> {texts[row]!r}")


def correlations(task: PocketTask, texts: list[str], channels: dict[str, np.ndarray]) -> None:
    columns: dict[str, np.ndarray] = dict(channels)
    found = [task.family.flaws(text) for text in texts]
    columns |= {f"flaw {kind}": np.array([flaws[kind] for flaws in found], dtype=float) for kind in found[0]}
    names = [name for name, values in columns.items() if values.std() > 0]
    table = np.corrcoef([columns[name] for name in names])
    print("share and correlations:")
    for row, name in enumerate(names):
        print(f"  {name:18s} {columns[name].mean():7.4f} " + " ".join(f"{value:6.2f}" for value in table[row]))


if __name__ == "__main__":
    main()

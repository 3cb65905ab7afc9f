"""Inside a process with verl: are the estimators registered, does verl accept the configuration, do the reward channels
reach the estimator? Reads a run's configuration as JSON from standard input, prints the findings as JSON."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from harness.compose import run_config_from_mapping
from harness.config import RunConfig
from harness.engines.verl import mapping
from harness.engines.verl.arguments import command_line, compose
from harness.errors import UserError
from harness.launch.findings import Finding
from harness.rewards.batch import score_batch


def main() -> int:
    config = run_config_from_mapping(json.load(sys.stdin))
    findings = [_registration(config), _configuration(config), _dry_batch(config)]
    print("ANSWER " + json.dumps([dataclasses.asdict(finding) for finding in findings]))
    return 0


def _registration(config: RunConfig) -> Finding:
    from harness.engines.verl import plugin
    from harness.engines.verl.estimators import register_method

    try:
        if config.method.file is not None:
            register_method(config.method.name)
        plugin.ensure_registered(config.method.name)
    except RuntimeError as error:
        return Finding("problem", "plug-in", str(error), "install the verl that is named")
    return Finding("ok", "plug-in", f"estimator {mapping.estimator_name(config.method.name)} is registered with verl")


def _configuration(config: RunConfig) -> Finding:
    inputs = mapping.Inputs(
        str(config.model.path or "pocket"), Path("train.parquet"), Path("held_out.parquet"), sys.maxsize
    )
    try:
        compose(command_line(mapping.overrides(config, inputs, Path("run"), 1)))
    except UserError as error:
        return Finding("problem", "configuration", str(error), "change the setting that is named")
    return Finding("ok", "configuration", "verl accepts it")


def _dry_batch(config: RunConfig) -> Finding:
    """Rewards of made-up responses to one prompt go through the estimator: two groups of two."""
    import torch

    from harness.engines.verl.estimators import ChannelBatch, channels_of_batch, make_estimator
    from harness.engines.verl.rewards import compute_score

    reference, good = _example(config.task.name)
    limit = config.data.length_limit
    tokens = [(1, limit or 1), (2, (limit or 1) + 1)]
    infos = [
        compute_score(config.task.name, text, reference, length_limit=limit, response_tokens=count)
        for _, count in tokens
        for text in (good, "")
    ]
    direct = score_batch(config.task.name, [good], [reference], [tokens[0][1]], length_limit=limit).channels
    mask = torch.ones((4, 3), dtype=torch.long)
    settings = {
        "reward_keys": list(config.task.channels),
        "normalization": config.task.normalization,
        "method_parameters": dict(config.method.parameters),
        "method_file": config.method.file,
        "reward_bounds": {name: [item.low, item.high] for name, item in config.task.channels.items()},
    }
    batch = ChannelBatch(infos, np.zeros(4, dtype=bool), [(str(row), 0) for row in range(4)])
    try:
        with channels_of_batch(batch):
            advantages, _ = make_estimator(config.method.name)(
                token_level_rewards=torch.zeros(4, 3),
                response_mask=mask,
                config=settings,
                index=np.array(["a", "b", "a", "b"], dtype=object),
            )
    except ValueError as error:
        return Finding("problem", "dry batch", str(error), "make task.channels and the reward function agree")
    if not torch.isfinite(advantages).all():
        return Finding("problem", "dry batch", "advantages are not finite", f"check method {config.method.name}")
    shown = ", ".join(f"{name} {float(values[0]):g}" for name, values in direct.items())
    return Finding("ok", "dry batch", f"rewards of a right answer ({shown}) reach estimator {config.method.name}")


def _example(task: str) -> tuple[str, str]:
    """(reference, right response) of a task."""
    if task == "maths":
        return "2", "1 + 1 = \\boxed{2}"
    answer = '<think> Look it up. </think>\n<tool_call>\n{"name": "find", "parameters": {"city": "Oslo"}}\n</tool_call>'
    return answer, answer


if __name__ == "__main__":
    sys.exit(main())

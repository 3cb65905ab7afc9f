"""The warm start: deterministic to the bit, readable by transformers, independent of the process's threads."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from harness.engines.local.policy import load_policy, pack
from harness.pocket import recipe
from harness.pocket.task import FAMILIES, PocketTask, tool_calling_family
from harness.pocket.warm_start import _schedule, build_checkpoint

SHORT = dataclasses.replace(recipe.TOOL_CALLING, steps=8, batch=4, warmup=2)

BUILD = """
import dataclasses, sys
from harness.pocket import recipe
from harness.pocket.task import PocketTask, tool_calling_family
made = dataclasses.replace(recipe.TOOL_CALLING, steps=8, batch=4, warmup=2)
print(PocketTask(tool_calling_family(made), "tool_calling", None, 0).checkpoint)
"""


def _digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def _task(seed: int = 0) -> PocketTask:
    return PocketTask(tool_calling_family(SHORT), "tool_calling", None, seed)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    return tmp_path


def test_two_processes_with_other_threads_build_the_same_bytes(cache: Path) -> None:
    ours = _digest(_task().checkpoint)
    environment = {**os.environ, "DARA_CACHE": str(cache / "other"), "OMP_NUM_THREADS": "2"}
    result = subprocess.run([sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True, check=True)
    assert _digest(Path(result.stdout.strip())) == ours
    assert "8/8" in result.stderr


def test_seeds_differ_and_threads_are_given_back(cache: Path) -> None:
    before = torch.get_num_threads()
    first, second = _task(0).checkpoint, _task(1).checkpoint
    assert first != second
    assert _digest(first)["model.safetensors"] != _digest(second)["model.safetensors"]
    assert torch.get_num_threads() == before


def test_transformers_serves_the_checkpoint(cache: Path) -> None:
    from transformers import AutoModelForCausalLM

    task = _task()
    policy = load_policy(task.checkpoint)
    theirs = AutoModelForCausalLM.from_pretrained(str(task.checkpoint))
    (prompt,) = task.evaluation_prompts(1)
    question = task.tokenizer.encode_prompt(prompt.text)
    answer = task.tokenizer.encode_response(prompt.reference)
    with torch.no_grad():
        ours = policy.logits(policy.hidden_packed(pack([question], [answer], [0])))
        reference = theirs(torch.tensor([question + answer])).logits[0, len(question) - 1 : -1]
    torch.testing.assert_close(ours, reference, rtol=1e-4, atol=1e-4)
    assert policy.spec.head_size == 32
    assert 100_000 < sum(weight.numel() for weight in policy.parameters()) < 500_000


def test_longer_training_makes_references_likelier(cache: Path) -> None:
    def mean_log_probability(steps: int) -> float:
        made = dataclasses.replace(SHORT, steps=steps)
        task = PocketTask(tool_calling_family(made), "tool_calling", None, 0)
        prompts = task.evaluation_prompts(16)
        batch = pack(
            [task.tokenizer.encode_prompt(prompt.text) for prompt in prompts],
            [task.tokenizer.encode_response(prompt.reference) for prompt in prompts],
            range(16),
        )
        policy = load_policy(task.checkpoint)
        with torch.no_grad():
            return float(policy.log_probabilities(batch).mean())

    assert mean_log_probability(40) > mean_log_probability(3) + 1.0


def test_schedule_rises_then_falls_to_nearly_zero() -> None:
    factors = [_schedule(step, recipe.TOOL_CALLING) for step in range(recipe.TOOL_CALLING.steps)]
    assert factors[0] == 1 / recipe.TOOL_CALLING.warmup
    assert max(factors) == 1.0
    assert 0.0 < factors[-1] < 0.01
    assert factors.index(1.0) == recipe.TOOL_CALLING.warmup - 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_the_frozen_recipe_builds(name: str, cache: Path) -> None:
    task = PocketTask(FAMILIES[name](), "tool_calling", None, 0)
    assert (task.checkpoint / "model.safetensors").stat().st_size < 4_000_000


def test_build_checkpoint_writes_only_into_its_folder(tmp_path: Path) -> None:
    task = _task()
    folder = tmp_path / "made"
    build_checkpoint(folder, SHORT, 0, task.tokenizer, task.family.draw_pair, [], "test")
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    names = {"config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert names <= {path.name for path in folder.iterdir()}

"""Pocket tasks of a run: pure prompts, exact errors, names that follow what determines a checkpoint."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from harness.compose import Composer, composing
from harness.config import RunConfig
from harness.errors import UserError
from harness.pocket import pocket_task
from harness.rewards.batch import score_batch


@pytest.fixture(scope="module")
def composer() -> Iterator[Composer]:
    with composing() as composer:
        yield composer


def with_(config: RunConfig, part: str, **changes: Any) -> RunConfig:
    return dataclasses.replace(config, **{part: dataclasses.replace(getattr(config, part), **changes)})


TASKS = ["tool_calling", "tool_calling_three", "maths"]


@pytest.mark.parametrize("name", TASKS)
def test_references_earn_the_highest_score_of_their_own_task(composer: Composer, name: str) -> None:
    config = composer.compose([f"task={name}"])
    task = pocket_task(config)
    prompts = task.training_prompts(0, 1, 64)
    answers = [prompt.reference if name != "maths" else f"\\boxed{{{prompt.reference}}}" for prompt in prompts]
    lengths = [len(task.tokenizer.encode(answer)) for answer in answers]
    scores = score_batch(
        task.reward_task, answers, [p.reference for p in prompts], lengths, length_limit=task.length_limit
    )
    for channel, bounds in config.task.channels.items():
        assert set(scores.channels[channel]) == {bounds.high}


@pytest.mark.parametrize("name", TASKS)
def test_prompts_are_a_function_of_seed_and_step_alone(composer: Composer, name: str) -> None:
    first = pocket_task(composer.compose([f"task={name}", "method=grpo", "seed=3"]))
    second = pocket_task(composer.compose([f"task={name}", "method=gdpo", "seed=4"]))
    assert first.training_prompts(3, 7, 32) == second.training_prompts(3, 7, 32)
    assert first.evaluation_prompts(32) == second.evaluation_prompts(32)
    assert first.evaluation_prompts(8) == second.evaluation_prompts(32)[:8]
    texts = [prompt.text for prompt in first.training_prompts(3, 7, 32)]
    assert texts != [prompt.text for prompt in first.training_prompts(3, 8, 32)]
    assert texts != [prompt.text for prompt in first.training_prompts(4, 7, 32)]
    assert texts != [prompt.text for prompt in first.evaluation_prompts(32)]
    assert len({prompt.uid for step in (1, 2) for prompt in first.training_prompts(3, step, 32)}) == 64


@pytest.mark.parametrize("name", TASKS)
def test_prompts_and_references_fit_the_configured_lengths(composer: Composer, name: str) -> None:
    config = composer.compose([f"task={name}"])
    task = pocket_task(config)
    for prompt in task.training_prompts(0, 1, 500):
        assert len(task.tokenizer.encode_prompt(prompt.text)) <= config.training.max_prompt_tokens
        assert len(task.tokenizer.encode_response(prompt.reference)) <= config.training.max_response_tokens


def test_both_tool_calling_tasks_share_a_checkpoint_and_seeds_do_not(composer: Composer) -> None:
    names = [
        pocket_task(composer.compose(overrides)).checkpoint_name
        for overrides in (
            ["task=tool_calling"],
            ["task=tool_calling_three"],
            ["task=maths"],
            ["task=tool_calling", "model.warm_start_seed=1"],
        )
    ]
    assert names[0] == names[1]
    assert len(set(names)) == 3


def test_a_changed_recipe_changes_the_name(composer: Composer) -> None:
    task = pocket_task(composer.compose([]))
    longer = dataclasses.replace(task.family.recipe, steps=task.family.recipe.steps + 1)
    changed = dataclasses.replace(task, family=dataclasses.replace(task.family, recipe=longer))
    assert task.checkpoint_name != changed.checkpoint_name


@pytest.mark.parametrize(
    ("task", "part", "changes", "message"),
    [
        ("tool_calling", "task", {"name": "tool_caling"}, "did you mean 'tool_calling'"),
        ("tool_calling", "data", {"name": "pocket_arithmetic"}, "use data=pocket_tool_calling"),
        ("tool_calling", "model", {"kind": "huggingface"}, "use model=pocket"),
        ("tool_calling", "model", {"warm_start_seed": None}, "warm_start_seed"),
        ("tool_calling_three", "data", {"length_limit": None}, "data.length_limit None"),
        ("maths", "data", {"length_limit": 0}, "data.length_limit 0"),
    ],
)
def test_what_does_not_fit_is_a_users_error(
    composer: Composer, task: str, part: str, changes: dict[str, Any], message: str
) -> None:
    config = with_(composer.compose([f"task={task}"]), part, **changes)
    with pytest.raises(UserError, match=message) as caught:
        pocket_task(config)
    assert "\n" not in str(caught.value)


def test_drift_gives_shares(composer: Composer) -> None:
    task = pocket_task(composer.compose([]))
    (prompt,) = task.evaluation_prompts(1)
    shares = task.drift([prompt.reference, "Sure : " + prompt.reference, "", prompt.reference])
    assert shares["lead"] == 0.25
    assert shares["broken"] == 0.25
    assert shares["tail"] == 0.0
    assert task.drift([]) == {}


def test_asking_for_a_task_loads_no_torch() -> None:
    code = "import sys, harness.pocket; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""A pocket task: its prompts, its tokenizer, its checkpoint, and how often a batch shows each kind of flaw."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.pocket import arithmetic, recipe, tool_calling
from harness.pocket.cache import built, content_key
from harness.pocket.recipe import Recipe
from harness.pocket.tokenizer import ARITHMETIC_PIECES, TOOL_CALLING_PIECES, PocketTokenizer
from harness.pocket.words import PARAMETERS

# First word of a seed sequence: training and evaluation prompts never come from the same stream.
TRAINING_STREAM, EVALUATION_STREAM = 1, 2


@dataclass(frozen=True)
class Prompt:
    """``uid`` labels the group of a training step, ``reference`` is what the reward compares with."""

    uid: str
    text: str
    reference: str


class Question(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def reference(self) -> str: ...


@dataclass(frozen=True)
class Family:
    """What the tasks on one generator of questions share: the checkpoint and all that goes into it."""

    name: str
    recipe: Recipe
    sources: tuple[str, ...]
    draw_question: Callable[[np.random.Generator], Question]
    draw_pair: Callable[[np.random.Generator], tuple[str, str]]
    tokenizer: Callable[[], PocketTokenizer]
    value_texts: tuple[str, ...]
    flaws: Callable[[str], dict[str, bool]]


@dataclass(frozen=True)
class PocketTask:
    """``reward_task`` and ``length_limit`` are what ``harness.rewards.batch.score_batch`` wants."""

    family: Family
    reward_task: str
    length_limit: int | None
    warm_start_seed: int

    def training_prompts(self, seed: int, step: int, count: int) -> list[Prompt]:
        """The prompts of a training step, a pure function of ``seed`` and ``step``: the same for every method."""
        generator = np.random.default_rng([TRAINING_STREAM, seed, step])
        return self._prompts(generator, count, f"{seed}-{step}")

    def evaluation_prompts(self, count: int) -> list[Prompt]:
        """The first ``count`` prompts of the held-out set, the same for every run."""
        return self._prompts(np.random.default_rng([EVALUATION_STREAM]), count, "held-out")

    @cached_property
    def checkpoint(self) -> Path:
        """Folder of the warm-started checkpoint; built on first use (under a minute), then cached."""
        return built(self.checkpoint_name, self._build)

    @cached_property
    def checkpoint_name(self) -> str:
        """Name in the cache: the family, the seed and a hash of all that determines the checkpoint."""
        from harness.engines.local import network, packing

        here = Path(__file__).parent
        key = content_key(
            {"recipe": dataclasses.asdict(self.family.recipe), "seed": self.warm_start_seed},
            [
                *(here / name for name in ("warm_start.py", "tokenizer.py", *self.family.sources)),
                *(Path(str(module.__file__)) for module in (network, packing)),
            ],
            ["torch", "numpy", "tokenizers"],
        )
        return f"{self.family.name}-w{self.warm_start_seed}-{key}"

    @cached_property
    def tokenizer(self) -> PocketTokenizer:
        """The checkpoint's tokenizer; does not need the checkpoint."""
        return self.family.tokenizer()

    def drift(self, texts: Sequence[str]) -> dict[str, float]:
        """Share of ``texts`` with each kind of flaw; empty without texts."""
        found = [self.family.flaws(text) for text in texts]
        return {kind: float(np.mean([flaws[kind] for flaws in found])) for kind in (found[0] if found else {})}

    def _prompts(self, generator: np.random.Generator, count: int, label: str) -> list[Prompt]:
        questions = [self.family.draw_question(generator) for _ in range(count)]
        return [
            Prompt(f"{label}-{index}", question.text, question.reference) for index, question in enumerate(questions)
        ]

    def _build(self, folder: Path) -> None:
        from harness.pocket.warm_start import build_checkpoint

        title = f"warm start {self.family.name} (seed {self.warm_start_seed})"
        family = self.family
        values = [token for text in family.value_texts for token in self.tokenizer.encode(text)]
        build_checkpoint(folder, family.recipe, self.warm_start_seed, self.tokenizer, family.draw_pair, values, title)


def tool_calling_family(made: Recipe) -> Family:
    """The generated tool-calling task with the warm start of ``made``."""
    mixture = made.mixture
    assert isinstance(mixture, tool_calling.Mixture)
    chances = tool_calling.chance_right(mixture)

    def draw_pair(generator: np.random.Generator) -> tuple[str, str]:
        query = tool_calling.draw_query(generator)
        return query.text, tool_calling.draw_answer(query, mixture, chances, generator)

    return Family(
        name="tool_calling",
        recipe=made,
        sources=("tool_calling.py", "words.py"),
        draw_question=tool_calling.draw_query,
        draw_pair=draw_pair,
        tokenizer=lambda: PocketTokenizer.of(tool_calling.every_piece(), TOOL_CALLING_PIECES),
        value_texts=tuple(str(value) for parameter in PARAMETERS.values() for value in parameter.values),
        flaws=tool_calling.flaws,
    )


def arithmetic_family(made: Recipe) -> Family:
    """The generated arithmetic task with the warm start of ``made``."""
    mixture = made.mixture
    assert isinstance(mixture, arithmetic.Mixture)

    def draw_pair(generator: np.random.Generator) -> tuple[str, str]:
        question = arithmetic.draw_sum(generator)
        return question.text, arithmetic.draw_answer(question, mixture, generator)

    return Family(
        name="arithmetic",
        recipe=made,
        sources=("arithmetic.py",),
        draw_question=arithmetic.draw_sum,
        draw_pair=draw_pair,
        tokenizer=lambda: PocketTokenizer.of(arithmetic.every_piece(), ARITHMETIC_PIECES),
        value_texts=(),
        flaws=arithmetic.flaws,
    )


FAMILIES: dict[str, Callable[[], Family]] = {
    "pocket_tool_calling": lambda: tool_calling_family(recipe.TOOL_CALLING),
    "pocket_arithmetic": lambda: arithmetic_family(recipe.ARITHMETIC),
}
TASKS = {
    "tool_calling": "pocket_tool_calling",
    "tool_calling_three": "pocket_tool_calling",
    "maths": "pocket_arithmetic",
}


def pocket_task(config: RunConfig) -> PocketTask:
    """The pocket task of a run; builds nothing. UserError when data, model or length limit do not fit the task."""
    wanted = TASKS.get(config.task.name)
    if wanted is None:
        raise UserError(f"task.name {config.task.name!r} has no pocket version; {nearest(config.task.name, TASKS)}")
    if config.data.name != wanted:
        raise UserError(
            f"data.name {config.data.name!r} does not fit task {config.task.name}; use data=pocket_{config.task.name}"
        )
    if config.model.kind != "pocket" or config.model.warm_start_seed is None:
        raise UserError(
            f"model {config.model.name!r} is not a pocket model with a warm_start_seed; use model=pocket with this data"
        )
    needs_limit = config.task.name != "tool_calling"
    if needs_limit and (config.data.length_limit is None or config.data.length_limit < 1):
        raise UserError(f"data.length_limit {config.data.length_limit} must be at least 1 for task {config.task.name}")
    return PocketTask(
        family=FAMILIES[wanted](),
        reward_task=config.task.name,
        length_limit=config.data.length_limit if needs_limit else None,
        warm_start_seed=config.model.warm_start_seed,
    )

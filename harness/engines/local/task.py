"""What the trainer needs of a task: prompts, a tokenizer and the checkpoint training starts from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol


class Prompt(Protocol):
    """``uid`` names the prompt within its batch; ``reference`` is what the rewards compare a response with."""

    @property
    def uid(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def reference(self) -> str: ...


class Tokenizer(Protocol):
    """``decode(encode(x)) == x`` for what the policy writes; ids after the end of a response never reach ``decode``."""

    @property
    def eos_id(self) -> int: ...

    @property
    def pad_id(self) -> int | None: ...

    def encode_prompt(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str: ...

    def save_pretrained(self, folder: Any) -> Any: ...


class Task(Protocol):
    """A generated task. ``training_prompts`` and ``evaluation_prompts`` are functions of their arguments alone."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def checkpoint(self) -> Path: ...

    @property
    def reward_task(self) -> str: ...

    @property
    def length_limit(self) -> int | None: ...

    def training_prompts(self, seed: int, step: int, count: int) -> Sequence[Prompt]: ...

    def evaluation_prompts(self, count: int) -> Sequence[Prompt]: ...

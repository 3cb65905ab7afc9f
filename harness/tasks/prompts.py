"""What the model reads. Tool calling: the system and user text of the data, unchanged. Maths: the problem and the
instruction in one user turn, without a system message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

MATHS_INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."
_OTHER_INSTRUCTIONS = ("Let's think step by step and output the final answer within \\boxed{}.",)

Message = dict[str, str]


class ChatTokenizer(Protocol):
    """What is needed of a Hugging Face tokenizer."""

    def apply_chat_template(self, conversation: list[Message], **options: Any) -> Any: ...


@dataclass(frozen=True)
class Example:
    """One row: chat messages, reference answer, number in the split, and the publisher's id if it has one."""

    messages: tuple[Message, ...]
    reference: str
    index: int
    identifier: str | None = None


def maths_messages(problem: str) -> tuple[Message, ...]:
    """One user turn: the problem, a blank, the instruction. An instruction that the data already carry is replaced."""
    text = problem.strip()
    for instruction in (MATHS_INSTRUCTION, *_OTHER_INSTRUCTIONS):
        text = text.removesuffix(instruction).rstrip()
    return ({"role": "user", "content": f"{text} {MATHS_INSTRUCTION}"},)


def prompt_tokens(messages: Sequence[Message], tokenizer: ChatTokenizer) -> int:
    """Length in tokens after the model's chat template, with the opening of the assistant's turn."""
    text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])  # type: ignore[operator]


def within_limit(
    examples: Sequence[Example], tokenizer: ChatTokenizer, max_prompt_tokens: int
) -> tuple[list[Example], int]:
    """(examples whose prompt has at most ``max_prompt_tokens``, how many were dropped). Order is kept."""
    kept = [example for example in examples if prompt_tokens(example.messages, tokenizer) <= max_prompt_tokens]
    return kept, len(examples) - len(kept)


def monitoring_set(examples: Sequence[Example], seed: int, size: int) -> list[Example]:
    """``size`` examples drawn without replacement by a generator of its own, in their order; they stay in training too.

    All of them when there are fewer. The same seed, data and size always give the same set.
    """
    if size >= len(examples):
        return list(examples)
    chosen = np.random.default_rng(seed).choice(len(examples), size=size, replace=False)
    return [examples[index] for index in sorted(chosen.tolist())]

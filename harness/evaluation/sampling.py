"""What is asked of a model and what comes back: requests, sampling parameters, generations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Message = dict[str, str]
Key = tuple[str, int, int, int]
"""(question, sample, turn, step): one output of a model. Turn and step count within a conversation, else 0."""


@dataclass(frozen=True)
class Sampling:
    """``max_new_tokens`` of one output; ``context``: prompt and output together (None: the model's). ``samples`` of
    each question. ``seed`` is the one every sample's own seed is derived from."""

    temperature: float
    top_p: float
    max_new_tokens: int
    context: int | None
    samples: int
    seed: int


@dataclass(frozen=True)
class Request:
    key: Key
    messages: tuple[Message, ...]
    seed: int

    @property
    def prompt_sha256(self) -> str:
        return hashlib.sha256(json.dumps(list(self.messages), sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Generation:
    """``text`` without the end-of-turn token; ``tokens`` with it. ``finish``: ``stop``, ``length`` (cut at a limit) or
    ``overflow`` (the prompt left no room: empty text)."""

    key: Key
    text: str
    tokens: int
    prompt_tokens: int | None
    finish: str


class Backend(Protocol):
    """An engine that completes chats.

    ``block``: requests that are computed together and whose results depend on each other (batched arithmetic); None
    where each request stands alone. ``describe()`` goes into the header of the stored outputs.
    """

    block: int | None

    def describe(self) -> dict[str, Any]: ...

    def generate(self, requests: Sequence[Request], sampling: Sampling, emit: Callable[[Generation], None]) -> None:
        """Call ``emit`` for each request as it is finished, in any order, in the calling thread. A UserError ends it;
        what was emitted before is kept."""
        ...


def seed_of(seed: int, key: Key) -> int:
    """The seed of one output, 31 bits: it depends on the key alone, not on what else is generated."""
    text = json.dumps([seed, *key]).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big") >> 1


def template_hash(template: str | None) -> str | None:
    return None if template is None else hashlib.sha256(template.encode()).hexdigest()[:16]

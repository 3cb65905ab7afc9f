"""Generation by a pocket model, through the local engine's own network and sampler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness.engines.local import settings
from harness.engines.local.policy import Policy, sample
from harness.evaluation.sampling import Generation, Request, Sampling, template_hash
from harness.pocket.tokenizer import CHAT_TEMPLATE, PocketTokenizer

STREAM = "evaluation"


class PolicyBackend:
    """All requests are one batch with the random numbers that the trainer's own evaluation of that seed has: at the
    same step both come to the same outputs."""

    def __init__(self, policy: Policy, tokenizer: PocketTokenizer, *, seed: int, block: int) -> None:
        self.policy, self.tokenizer, self.seed = policy, tokenizer, seed
        self.block: int | None = block

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "policy",
            "version": str(torch.__version__),
            "block": self.block,
            "template_sha256": template_hash(CHAT_TEMPLATE),
        }

    def generate(self, requests: Sequence[Request], sampling: Sampling, emit: Callable[[Generation], None]) -> None:
        prompts = [self.tokenizer.encode_prompt(request.messages[-1]["content"]) for request in requests]
        with settings.deterministic():
            rollout = sample(
                self.policy,
                prompts,
                1,
                settings.stream(self.seed, 0, STREAM),
                eos_id=self.tokenizer.eos_id,
                max_new_tokens=sampling.max_new_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
            )
        rows, lengths = rollout.tokens.tolist(), rollout.lengths.tolist()
        for request, prompt, row, length in zip(requests, prompts, rows, lengths, strict=True):
            tokens = row[:length]
            ended = tokens[-1] == self.tokenizer.eos_id
            text = self.tokenizer.decode(tokens[:-1] if ended else tokens)
            emit(Generation(request.key, text, length, len(prompt), "stop" if ended else "length"))

"""Generation on a CPU: ragged prompts in one batch give what each gives alone; log-probabilities are the model's."""

from __future__ import annotations

import os

import pytest
import torch
from verl_cases import INSTALLED, needs_verl

pytestmark = needs_verl

if INSTALLED:
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "harness.engines.verl.cpu_platform")

PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13], [5, 6]]
STOP = 1


@pytest.fixture(scope="module")
def server():
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from harness.engines.verl.cpu_rollout import Server

    torch.manual_seed(3)
    config = Qwen2Config(
        vocab_size=24,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=64,
        initializer_range=0.5,
        tie_word_embeddings=True,
    )
    made = Server.__new__(Server)
    made.model = Qwen2ForCausalLM(config).eval()
    made.parameters = dict(made.model.named_parameters(remove_duplicate=False))
    made.generator = torch.Generator().manual_seed(0)
    made.stops, made.padding = {STOP}, 0
    return made


def decode(server, sampling, limits):
    from harness.engines.verl.cpu_rollout import Request

    requests = [Request(prompt, limit, sampling, None) for prompt, limit in zip(PROMPTS, limits, strict=True)]
    answers = dict(server._decode(requests))
    return [answers[row] for row in range(len(requests))]


def log_probabilities(server, prompt, answer):
    with torch.no_grad():
        logits = server.model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return torch.log_softmax(logits.float(), -1).gather(-1, torch.tensor(answer)[:, None])[:, 0]


def test_greedy_answers_are_those_of_each_prompt_alone(server):
    limits = [6, 3, 8, 1]
    for prompt, limit, (tokens, _) in zip(PROMPTS, limits, decode(server, (0.0, -1, 1.0), limits), strict=True):
        expected: list[int] = []
        while len(expected) < limit and (not expected or expected[-1] != STOP):
            with torch.no_grad():
                expected.append(int(server.model(torch.tensor([prompt + expected])).logits[0, -1].argmax()))
        assert tokens == expected


def test_sampled_log_probabilities_are_the_models(server):
    for prompt, (tokens, chances) in zip(PROMPTS, decode(server, (1.0, -1, 1.0), [12] * 4), strict=True):
        assert 1 <= len(tokens) <= 12
        assert STOP not in tokens[:-1]
        torch.testing.assert_close(
            torch.tensor(chances), log_probabilities(server, prompt, tokens), atol=1e-4, rtol=1e-4
        )


def test_sampling_is_from_the_models_distribution(server):
    from harness.engines.verl.cpu_rollout import _draw

    logits = torch.tensor([[1.0, 0.0, -1.0, 2.0]]).repeat(20_000, 1)
    generator = torch.Generator().manual_seed(0)
    tokens, chances = _draw(logits, (1.0, -1, 1.0), generator)
    share = torch.bincount(tokens, minlength=4) / len(tokens)
    torch.testing.assert_close(share, logits[0].softmax(-1), atol=0.02, rtol=0.0)
    torch.testing.assert_close(chances, logits[0].log_softmax(-1)[tokens])
    only, _ = _draw(logits, (1.0, 1, 1.0), generator)
    assert set(only.tolist()) == {3}
    nucleus, _ = _draw(logits, (1.0, -1, 0.7), generator)
    assert set(nucleus.tolist()) == {3, 0}


def test_tied_weights_arrive(server):
    import asyncio

    weights = [(name, torch.full_like(value, 0.01)) for name, value in server.parameters.items()]
    assert {"lm_head.weight", "model.embed_tokens.weight"} <= {name for name, _ in weights}
    assert asyncio.run(server.update_weights(weights)) == len(weights)
    assert float(server.model.lm_head.weight.detach()[0, 0]) == pytest.approx(0.01)

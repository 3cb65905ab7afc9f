"""The network: equal to transformers' Qwen2, whatever the layout; hand-written gradients equal to autograd's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from local_stub import SPEC, StubTokenizer

from harness.engines.local.network import _GatedSilu, _RMSNorm
from harness.engines.local.policy import Policy, PolicySpec, load_policy, pack, sample, save_policy
from harness.errors import UserError

TOKENIZER = StubTokenizer()


def random_policy(kv_heads: int = 1, heads: int = 3, seed: int = 0) -> Policy:
    """Biases and norms away from their initial values, so that a mistake in any of them shows."""
    spec = PolicySpec(40, heads * 16, 2, heads, kv_heads, 56, head_size=16, max_positions=64)
    generator = torch.Generator().manual_seed(seed)
    policy = Policy(spec, generator)
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5, generator=generator)
            else:
                parameter.normal_(0.0, 0.3, generator=generator)
    return policy


def conversation() -> tuple[list[list[int]], list[list[int]], list[int]]:
    generator = np.random.default_rng(3)
    prompts = [generator.integers(3, 40, length).tolist() for length in (5, 1, 9)]
    owner = [0, 0, 1, 2, 2, 2]
    responses = [generator.integers(3, 40, length).tolist() for length in (4, 7, 1, 12, 3, 2)]
    return prompts, responses, owner


@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 1), (4, 2), (2, 2)])
def test_logits_equal_transformers_on_a_reloaded_checkpoint(tmp_path: Path, heads: int, kv_heads: int) -> None:
    transformers = pytest.importorskip("transformers")
    policy = random_policy(kv_heads, heads)
    save_policy(policy, TOKENIZER, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert theirs.config.tie_word_embeddings
    assert theirs.generation_config.eos_token_id == TOKENIZER.eos_id
    prompts, responses, owner = conversation()
    ours = policy.logits(policy.hidden_packed(pack(prompts, responses, owner)))
    start = 0
    for response, prompt in zip(responses, owner, strict=True):
        ids = torch.tensor([prompts[prompt] + response])
        expected = theirs(ids).logits[0, len(prompts[prompt]) - 1 : -1]
        torch.testing.assert_close(ours[start : start + len(response)], expected, rtol=1e-5, atol=1e-5)
        start += len(response)
    assert start == len(ours)


def test_a_checkpoint_returns_the_same_weights_to_the_bit(tmp_path: Path) -> None:
    policy = random_policy(2, 4)
    save_policy(policy, TOKENIZER, tmp_path)
    again = load_policy(tmp_path)
    assert again.spec == policy.spec
    for (name, before), (_, after) in zip(policy.named_parameters(), again.named_parameters(), strict=True):
        assert torch.equal(before, after), name


def test_the_layout_of_the_batch_does_not_matter() -> None:
    policy = random_policy()
    prompts, responses, owner = conversation()
    together = policy.log_probabilities(pack(prompts, responses, owner))
    alone = [
        policy.log_probabilities(pack([prompts[prompt]], [response], [0]))
        for response, prompt in zip(responses, owner, strict=True)
    ]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)


def test_gradients_of_a_shared_prompt_equal_those_of_separate_prompts() -> None:
    prompts, responses, owner = conversation()
    gradients = []
    for shared in (True, False):
        policy = random_policy()
        batch = (
            pack(prompts, responses, owner)
            if shared
            else pack([prompts[prompt] for prompt in owner], responses, range(len(owner)))
        )
        policy.log_probabilities(batch).sum().backward()
        gradients.append([parameter.grad for parameter in policy.parameters()])
    for first, second in zip(*gradients, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-4)


def test_sampled_log_probabilities_equal_the_training_forward() -> None:
    policy = random_policy(2, 4)
    prompts, _, _ = conversation()
    rollout = sample(
        policy,
        prompts,
        40,
        torch.Generator().manual_seed(1),
        eos_id=7,
        max_new_tokens=20,
        temperature=0.7,
        top_p=0.9,
    )
    lengths = rollout.lengths.tolist()
    assert len(set(lengths)) > 2
    responses = [row[:length] for row, length in zip(rollout.tokens.tolist(), lengths, strict=True)]
    expected = policy.log_probabilities(pack(prompts, responses, np.repeat(np.arange(3), 40)), temperature=0.7)
    sampled = [row[:length] for row, length in zip(rollout.log_probabilities, lengths, strict=True)]
    torch.testing.assert_close(torch.cat(sampled), expected, rtol=1e-4, atol=1e-5)


def test_hand_written_gradients() -> None:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.rand(6, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(_RMSNorm.apply, (hidden, weight))
    torch.testing.assert_close(_RMSNorm.apply(hidden, weight), torch.rms_norm(hidden, (6,), weight, 1e-6))
    assert torch.autograd.gradcheck(_GatedSilu.apply, (hidden,))
    gate, up = hidden.chunk(2, -1)
    torch.testing.assert_close(_GatedSilu.apply(hidden), torch.nn.functional.silu(gate) * up)


@pytest.mark.parametrize(
    ("prompts", "responses", "owner"),
    [([[1]], [], []), ([[1], []], [[2]], [0]), ([[1]], [[]], [0]), ([[1]], [[2]], [1]), ([[1]], [[2]], [0, 0])],
)
def test_pack_refuses_what_has_no_meaning(prompts: list, responses: list, owner: list) -> None:
    with pytest.raises(ValueError, match="pack"):
        pack(prompts, responses, owner)


def test_a_spec_that_servers_could_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="hidden_size 96"):
        PolicySpec(10, 96, 1, 2, 1, 16)
    with pytest.raises(ValueError, match="multiple of kv_heads"):
        PolicySpec(10, 96, 1, 3, 2, 16)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"model_type": "llama"}, "model_type='llama'"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters"),
        ({"intermediate_size": 50}, "weights do not fit config.json"),
        ({"num_hidden_layers": 3}, "weights do not fit config.json"),
    ],
)
def test_a_foreign_checkpoint_is_one_clear_line(tmp_path: Path, damage: dict, message: str) -> None:
    save_policy(Policy(SPEC, torch.Generator().manual_seed(0)), TOKENIZER, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | damage))
    with pytest.raises(UserError, match=message):
        load_policy(tmp_path)


def test_a_damaged_or_absent_checkpoint_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read the checkpoint"):
        load_policy(tmp_path)
    save_policy(Policy(SPEC, torch.Generator().manual_seed(0)), TOKENIZER, tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:300])
    with pytest.raises(UserError, match="cannot read the checkpoint"):
        load_policy(tmp_path)

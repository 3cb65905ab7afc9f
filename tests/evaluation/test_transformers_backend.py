"""The transformers backend on a small random model: batches, sampling, end tokens, tokenizers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

from harness.errors import UserError
from harness.evaluation.backends.chat import Chat
from harness.evaluation.backends.transformers import _CANDIDATES, TransformersBackend, draw
from harness.evaluation.sampling import Generation, Request, Sampling

WORDS = ["<eos>", "<unk>", "<sep>", *(f"w{index}" for index in range(60))]
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %} <sep>"
GREEDY = Sampling(0.0, 1.0, 12, None, 1, 0)


def make_model(folder: Path, template: str | None = TEMPLATE, tokenizer_class: str = "PreTrainedTokenizerFast") -> Path:
    """A Qwen2 model with random weights and a tokenizer of whole words, as ``save_pretrained`` leaves them."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(WORDS),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.6,
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=None,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": tokenizer_class, "unk_token": "<unk>", "eos_token": "<eos>"}
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def asked(index: int, length: int) -> Request:
    content = " ".join(f"w{(7 * index + position) % 60}" for position in range(length))
    return Request((f"q{index}", 0, 0, 0), ({"role": "user", "content": content},), 100 + index)


REQUESTS = [asked(index, length) for index, length in enumerate([3, 17, 1, 9, 30, 5, 55, 2])]


def generate(folder: Path, requests: list[Request], sampling: Sampling, block: int) -> dict[str, Generation]:
    backend = TransformersBackend(str(folder), device="cpu", dtype="float32", block=block)
    found: list[Generation] = []
    for start in range(0, len(requests), block):
        backend.generate(requests[start : start + block], sampling, found.append)
    return {generation.key[0]: generation for generation in found}


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1.0, 0.95, 12, None, 1, 0)], ids=["greedy", "sampled"])
def test_a_batch_says_what_each_prompt_alone_would(folder: Path, sampling: Sampling) -> None:
    """Left padding, positions, and rows that leave the batch early. In float32 the arithmetic of a batch differs by
    rounding alone, which changes no choice of this model."""
    alone = generate(folder, REQUESTS, sampling, 1)
    assert len({generation.tokens for generation in alone.values()}) > 1
    assert generate(folder, REQUESTS, sampling, 8) == alone
    assert generate(folder, REQUESTS, sampling, 3) == alone


def test_greedy_output_is_that_of_the_library(folder: Path) -> None:
    from transformers import Qwen2ForCausalLM

    model, chat = Qwen2ForCausalLM.from_pretrained(folder).eval(), Chat(str(folder))
    found = generate(folder, REQUESTS, GREEDY, 8)
    for request in REQUESTS[:6]:
        prompt = chat.encode(request.messages)
        with torch.inference_mode():
            whole = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)[0, len(prompt) :]
        tokens = whole.tolist()
        assert found[request.key[0]].tokens == len(tokens)
        assert found[request.key[0]].text == chat.decode(tokens[:-1] if tokens[-1] == 0 else tokens)


def test_the_context_bounds_an_output(folder: Path) -> None:
    found = generate(folder, [*REQUESTS, asked(20, 63)], GREEDY, 9)
    assert found["q6"].prompt_tokens == 56
    assert found["q6"].tokens <= 64 - 56
    assert found["q20"] == Generation(("q20", 0, 0, 0), "", 0, 64, "overflow")


def sorted_draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> list[int]:
    """The definition: sort the whole vocabulary, cut it at the nucleus, go through it."""
    chosen = []
    for row, number in zip(logits, uniform.tolist(), strict=True):
        probabilities = torch.softmax(row.double() / temperature, -1).tolist()
        order = sorted(range(len(probabilities)), key=lambda token: (-probabilities[token], token))
        nucleus, mass = [], 0.0
        for token in order:
            if mass >= top_p:
                break
            nucleus.append(token)
            mass += probabilities[token]
        goal, passed = number * mass, 0.0
        for token in nucleus:
            passed += probabilities[token]
            if passed > goal:
                break
        chosen.append(token)
    return chosen


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.2, 1.0, 5.0]),
    st.sampled_from([0.3, 0.95, 1.0]),
    st.sampled_from([8, _CANDIDATES, _CANDIDATES + 1, 3 * _CANDIDATES]),
    st.booleans(),
)
def test_a_draw_is_the_inverse_of_the_nucleus(seed: int, scale: float, top_p: float, size: int, coarse: bool) -> None:
    """Also where the nucleus holds more tokens than are sorted first, and where many are equally likely."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, size, generator=generator) * scale
    if coarse:
        logits = logits.round()
    uniform = torch.rand(3, generator=generator, dtype=torch.float64) * 0.999 + 0.0005
    assert draw(logits, uniform, 0.6, top_p).tolist() == sorted_draw(logits, uniform, 0.6, top_p)
    assert draw(logits, uniform, 0.0, top_p).tolist() == logits.argmax(-1).tolist()


def test_the_folder_s_own_tokenizer_is_read(folder: Path) -> None:
    """AutoTokenizer would take Qwen2's, to which these words are unknown."""
    chat = Chat(str(folder))
    assert chat.encode([{"role": "user", "content": "w3 w59"}]) == [6, 62, 2]
    assert chat.decode([6, 62]) == "w3 w59"


def test_a_tokenizer_that_does_not_know_the_words_is_refused(tmp_path: Path) -> None:
    made = make_model(tmp_path, "w1 w2{{ messages[0]['content'] }}", "Qwen2Tokenizer")
    with pytest.raises(UserError, match=r"as Qwen2Tokenizer, which loses words that tokenizer\.json knows; set "):
        Chat(str(made))


def test_a_pocket_export_is_read_as_the_engine_reads_it(tmp_path: Path) -> None:
    from harness.engines.local.huggingface import save_policy
    from harness.engines.local.network import Policy, PolicySpec
    from harness.pocket.tokenizer import TOOL_CALLING_PIECES, PocketTokenizer

    text = "what is the weather in Oslo?"
    tokenizer = PocketTokenizer.of([text], TOOL_CALLING_PIECES)
    spec = PolicySpec(tokenizer.size, 64, 1, 2, 1, 32)
    save_policy(Policy(spec, generator=torch.Generator().manual_seed(0)), tokenizer, tmp_path)
    chat = Chat(str(tmp_path))
    assert chat.encode([{"role": "user", "content": text}]) == tokenizer.encode_prompt(text)
    assert TransformersBackend(str(tmp_path), device="cpu", dtype="float32", block=1).ends == {tokenizer.eos_id}


def test_a_model_without_a_chat_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no chat template: take its instruction-tuned version"):
        TransformersBackend(str(make_model(tmp_path, None)), device="cpu", dtype="float32", block=1)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("./nowhere", "model=./nowhere does not exist"),
        ("/nowhere/x.gguf", "does not exist; give a folder, a .gguf file or a hub name"),
    ],
)
def test_a_model_that_is_not_there(path: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        TransformersBackend(path, device="cpu", dtype="float32", block=1)


def test_a_damaged_model_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(UserError, match="can't be loaded") as failure:
        TransformersBackend(str(tmp_path / "broken.gguf"), device="cpu", dtype="float32", block=1)
    assert "\n" not in str(failure.value)
    assert "gguf" in str(failure.value)

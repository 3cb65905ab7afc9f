"""The vLLM backend against a stand-in with vLLM's documented interface; the engine itself needs a GPU.

The stand-in takes the arguments that vLLM's `LLM`, `SamplingParams` and `LLM.generate` have in vLLM's
sources and no others, and answers with the fields of `RequestOutput`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from test_transformers_backend import REQUESTS, asked, make_model

from harness.errors import UserError
from harness.evaluation.backends.vllm import VllmBackend
from harness.evaluation.sampling import Generation, Sampling


@dataclass
class SamplingParams:
    """A part of vLLM's fields, with its defaults."""

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: list[int] | None = None
    max_tokens: int | None = 16
    detokenize: bool = True
    skip_special_tokens: bool = True


@dataclass
class CompletionOutput:
    token_ids: Sequence[int]
    finish_reason: str | None
    text: str = ""
    index: int = 0


@dataclass
class RequestOutput:
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput] = field(default_factory=list)


class LLM:
    made: ClassVar[list[LLM]] = []

    def __init__(
        self,
        model: str,
        *,
        dtype: str = "auto",
        seed: int | None = None,
        tensor_parallel_size: int = 1,
        max_model_len: int | None = None,
        generation_config: str = "auto",
    ) -> None:
        if dtype not in ("auto", "float32", "bfloat16", "float16"):
            raise ValueError(f"unknown dtype {dtype}")
        self.options = (model, dtype, seed, tensor_parallel_size, generation_config)
        config = types.SimpleNamespace(max_model_len=max_model_len or 64)
        self.llm_engine = types.SimpleNamespace(model_config=config)
        self.asked: list[tuple[Any, Any]] = []
        LLM.made.append(self)

    def generate(
        self,
        prompts: Sequence[dict[str, list[int]]],
        sampling_params: Sequence[SamplingParams],
        *,
        use_tqdm: bool = True,
    ) -> list[RequestOutput]:
        """Says the prompt's first word again and ends, or goes on to the limit where that word is w0."""
        assert len(prompts) == len(sampling_params)
        assert not use_tqdm
        found = []
        for prompt, parameters in zip(prompts, sampling_params, strict=True):
            assert set(prompt) == {"prompt_token_ids"}
            assert parameters.max_tokens is not None
            assert len(prompt["prompt_token_ids"]) + parameters.max_tokens <= self.llm_engine.model_config.max_model_len
            self.asked.append((prompt, parameters))
            first = prompt["prompt_token_ids"][0]
            endless = first == 3
            tokens = (first,) * parameters.max_tokens if endless else (first, first, 0)
            output = CompletionOutput(tokens, "length" if endless else "stop")
            found.append(RequestOutput(prompt["prompt_token_ids"], [output]))
        return found


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VllmBackend:
    module = types.ModuleType("vllm")
    vars(module).update(LLM=LLM, SamplingParams=SamplingParams, __version__="stand-in")
    monkeypatch.setitem(sys.modules, "vllm", module)
    return VllmBackend(str(make_model(tmp_path)), dtype="bfloat16", block=512, context=None, tensor_parallel=2)


def test_requests_and_answers(backend: VllmBackend) -> None:
    found: list[Generation] = []
    backend.generate([*REQUESTS, asked(20, 63)], Sampling(0.6, 0.95, 12, None, 1, 0), found.append)
    answers = {generation.key[0]: generation for generation in found}
    engine = LLM.made[-1]
    assert engine.options[1:] == ("bfloat16", 0, 2, "vllm")
    assert len(answers) == len(REQUESTS) + 1
    assert answers["q20"] == Generation(("q20", 0, 0, 0), "", 0, 64, "overflow")
    assert answers["q1"] == Generation(("q1", 0, 0, 0), "w7 w7", 3, 18, "stop")
    assert answers["q0"] == Generation(("q0", 0, 0, 0), " ".join(["w0"] * 12), 12, 4, "length")
    _, parameters = engine.asked[1]
    assert (parameters.temperature, parameters.top_p, parameters.top_k) == (0.6, 0.95, -1)
    assert (parameters.seed, parameters.stop_token_ids, parameters.detokenize) == (101, [0], False)
    long = next(parameters for prompt, parameters in engine.asked if len(prompt["prompt_token_ids"]) == 56)
    assert long.max_tokens == 8
    assert backend.describe()["version"] == "stand-in"


def test_without_vllm_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="install it on a GPU machine, or give backend=transformers"):
        VllmBackend("x", dtype="auto", block=8, context=None, tensor_parallel=1)


def test_a_model_that_vllm_refuses(backend: VllmBackend, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"backend=vllm: model=.* can't be loaded \(unknown dtype int3\)"):
        VllmBackend(str(tmp_path), dtype="int3", block=8, context=None, tensor_parallel=1)

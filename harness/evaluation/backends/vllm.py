"""Generation by vLLM's offline engine on GPUs. vLLM is no dependency of the harness; it must be installed beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.errors import UserError
from harness.evaluation.backends.chat import Chat, one_line, room
from harness.evaluation.sampling import Generation, Request, Sampling


class VllmBackend:
    """Each request has its own seed. vLLM's batching may still change low bits, so a resumed evaluation equals an
    uninterrupted one only as far as vLLM is batch-invariant."""

    def __init__(self, path: str, *, dtype: str, block: int, context: int | None, tensor_parallel: int) -> None:
        try:
            import vllm
        except ImportError as error:
            raise UserError(
                f"backend=vllm: vLLM can't be imported ({one_line(error)}); install it on a GPU machine, or give "
                "backend=transformers"
            ) from error
        self._vllm: Any = vllm
        self.block: int | None = block
        self.path, self.dtype = path, dtype
        self.chat = Chat(path)
        options = {} if context is None else {"max_model_len": context}
        try:
            self.engine: Any = vllm.LLM(
                model=path,
                dtype=dtype,
                seed=0,
                generation_config="vllm",
                tensor_parallel_size=tensor_parallel,
                **options,
            )
        except Exception as error:
            raise UserError(f"backend=vllm: model={path} can't be loaded ({one_line(error)})") from error

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "vllm",
            "version": str(self._vllm.__version__),
            "dtype": self.dtype,
            "block": self.block,
            "template_sha256": self.chat.template_sha256,
        }

    def generate(self, requests: Sequence[Request], sampling: Sampling, emit: Callable[[Generation], None]) -> None:
        prompts, parameters, fitting = [], [], []
        for request in requests:
            tokens = self.chat.encode(request.messages)
            left = room(sampling, len(tokens), None)
            if left < 1:
                emit(Generation(request.key, "", 0, len(tokens), "overflow"))
                continue
            fitting.append(request)
            prompts.append({"prompt_token_ids": tokens})
            parameters.append(
                self._vllm.SamplingParams(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    top_k=-1,
                    seed=request.seed,
                    max_tokens=left,
                    skip_special_tokens=False,
                )
            )
        results = self.engine.generate(prompts, parameters, use_tqdm=False) if prompts else []
        for request, result in zip(fitting, results, strict=True):
            output = result.outputs[0]
            finish = "stop" if output.finish_reason == "stop" else "length"
            count = len(result.prompt_token_ids)
            emit(Generation(request.key, output.text, len(output.token_ids), count, finish))

"""Generation by vLLM's offline engine on GPUs. vLLM is no dependency of the harness; it must be installed beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.errors import UserError
from harness.evaluation.backends.chat import Chat, end_tokens, one_line, room
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
        self.context = int(self.engine.llm_engine.model_config.max_model_len)
        self.ends = end_tokens(path, self.chat.tokenizer)

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
            left = room(sampling, len(tokens), self.context)
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
                    stop_token_ids=sorted(self.ends),
                    detokenize=False,
                )
            )
        results = self.engine.generate(prompts, parameters, use_tqdm=False) if prompts else []
        for request, result in zip(fitting, results, strict=True):
            tokens = list(result.outputs[0].token_ids)
            ended = bool(tokens) and tokens[-1] in self.ends
            text = self.chat.decode(tokens[:-1] if ended else tokens)
            count = len(result.prompt_token_ids)
            emit(Generation(request.key, text, len(tokens), count, "stop" if ended else "length"))

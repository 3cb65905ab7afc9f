"""Generation by ``transformers`` on the CPU or one GPU: slow, exact, available wherever the harness is.

Every output has its own random numbers, so that neither the batch nor an interruption decides what is drawn. Batches
are cut from the whole list of requests; the same machine computes the same outputs again. Within a batch the prompts
are padded on the left and the keys and values are kept; a row that has ended leaves the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.errors import UserError, nearest
from harness.evaluation.backends.chat import Chat, end_tokens, located, one_line, room
from harness.evaluation.sampling import Generation, Request, Sampling

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_DRAWS = 256
_CANDIDATES = 512
"""Likeliest tokens that are sorted first; a nucleus that does not fit makes the draw sort the whole vocabulary."""


class TransformersBackend:
    """``path``: hub name, folder or ``.gguf`` file. ``device``: cpu or cuda. ``block`` requests make a batch."""

    def __init__(self, path: str, *, device: str, dtype: str, block: int) -> None:
        import transformers

        if dtype not in DTYPES:
            raise UserError(f"dtype={dtype} is unknown: {nearest(dtype, DTYPES)}")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UserError(f"device={device}: this machine has no usable GPU; give device=cpu")
        if block < 1:
            raise UserError(f"batch={block} must be at least 1")
        self.block: int | None = block
        self.path, self.device, self.dtype = path, device, dtype
        self.version = transformers.__version__
        place, gguf = located(path)
        self.chat = Chat(place, gguf)
        options: dict[str, Any] = {"dtype": DTYPES[dtype]} | ({} if gguf is None else {"gguf_file": gguf})
        try:
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(place, **options)
        except Exception as error:
            remedy = "give another model=" if gguf is None else "install gguf and accelerate"
            raise UserError(f"model={path} can't be loaded ({one_line(error)}); {remedy}") from error
        self.model: Any = loaded.to(device).eval()
        self.context: int | None = getattr(self.model.config, "max_position_embeddings", None)
        self.ends = end_tokens(None, self.chat.tokenizer, self.model.generation_config)

    def describe(self) -> dict[str, Any]:
        return {
            "engine": "transformers",
            "version": self.version,
            "device": self.device,
            "dtype": self.dtype,
            "block": self.block,
            "template_sha256": self.chat.template_sha256,
        }

    def generate(self, requests: Sequence[Request], sampling: Sampling, emit: Callable[[Generation], None]) -> None:
        prompts = {request.key: self.chat.encode(request.messages) for request in requests}
        fitting = []
        for request in requests:
            if room(sampling, len(prompts[request.key]), self.context) < 1:
                emit(Generation(request.key, "", 0, len(prompts[request.key]), "overflow"))
            else:
                fitting.append(request)
        if not fitting:
            return
        rows = [prompts[request.key] for request in fitting]
        limits = [room(sampling, len(row), self.context) for row in rows]
        outputs = self._sample(rows, [request.seed for request in fitting], limits, sampling)
        for request, row, tokens in zip(fitting, rows, outputs, strict=True):
            ended = bool(tokens) and tokens[-1] in self.ends
            text = self.chat.decode(tokens[:-1] if ended else tokens)
            emit(Generation(request.key, text, len(tokens), len(row), "stop" if ended else "length"))

    @torch.inference_mode()
    def _sample(
        self, rows: Sequence[Sequence[int]], seeds: Sequence[int], limits: Sequence[int], sampling: Sampling
    ) -> list[list[int]]:
        """Token ids of each row's output, with the end token if there is one. Prompts are padded on the left."""
        width, count = max(map(len, rows)), len(rows)
        ids = torch.zeros(count, width, dtype=torch.long)
        mask = torch.zeros(count, width, dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :] = torch.tensor(row)
            mask[index, width - len(row) :] = 1
        ids, mask = ids.to(self.device), mask.to(self.device)
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        draws = [_uniform(seed) for seed in seeds]
        outputs: list[list[int]] = [[] for _ in rows]
        alive = list(range(count))
        cache: Any = None
        while True:
            result = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = result.past_key_values
            uniform = torch.tensor([next(draws[index]) for index in alive], dtype=torch.float64)
            tokens = draw(result.logits[:, -1].float().cpu(), uniform, sampling.temperature, sampling.top_p)
            kept = []
            for place, (index, token) in enumerate(zip(alive, tokens.tolist(), strict=True)):
                outputs[index].append(token)
                if token not in self.ends and len(outputs[index]) < limits[index]:
                    kept.append(place)
            if not kept:
                return outputs
            ids, positions = tokens[:, None].to(self.device), positions[:, -1:] + 1
            if len(kept) < len(alive):
                chosen = torch.tensor(kept, device=self.device)
                ids, positions, mask = ids[chosen], positions[chosen], mask[chosen]
                cache.reorder_cache(chosen)
                alive = [alive[place] for place in kept]
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], dim=1)


def _uniform(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.rand(_DRAWS, generator=generator, dtype=torch.float64).tolist()


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """One token a row from ``logits`` [R, V] and numbers ``uniform`` [R] in [0, 1): the inverse of the cumulative
    distribution over the tokens of the nucleus, most likely first. Temperature 0: the most likely token."""
    if temperature == 0.0:
        return logits.argmax(-1)
    probabilities = torch.softmax(logits.double() / temperature, -1)
    ordered, order = _likeliest(probabilities, top_p)
    cumulative = ordered.cumsum(-1)
    kept = ordered.masked_fill(cumulative - ordered >= top_p, 0.0).cumsum(-1)
    total = kept[:, -1:]
    threshold = torch.minimum(uniform[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    place = torch.searchsorted(kept, threshold, right=True)
    return order.gather(1, place)[:, 0]


def _likeliest(probabilities: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """(probabilities, tokens), the likeliest first and equal ones by token: all of them, or as many as surely hold the
    nucleus of every row."""
    count = min(_CANDIDATES, probabilities.shape[1])
    tokens = probabilities.topk(count, dim=-1).indices.sort(dim=-1).values
    ordered, order = probabilities.gather(1, tokens).sort(dim=-1, descending=True, stable=True)
    # Tokens as likely as the last candidate may have been left out: the nucleus must end before that one.
    sure = torch.where(ordered > ordered[:, -1:], ordered, 0.0).sum(-1)
    if count < probabilities.shape[1] and bool((sure < top_p).any()):
        return tuple(probabilities.sort(dim=-1, descending=True, stable=True))  # type: ignore[return-value]
    return ordered, tokens.gather(1, order)

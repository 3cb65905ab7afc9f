"""``rollout.name=hf_cpu``: generation with Hugging Face transformers, for machines without an accelerator.

verl imports this module in every process that looks up a rollout (``actor_rollout_ref.model.external_lib``). It adds
one name to verl's two rollout registries: a client inside each FSDP worker that pushes weights, and a replica that
starts the server actor to which the agent loops talk. The server decodes whatever requests wait as one batch with a
key-value cache; a finished row leaves the batch and is answered at once: its reward is computed while the others are
decoded.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import ray
import torch
import verl.workers.rollout.base as rollout_base
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import HFModelConfig
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

NAME = "hf_cpu"
GATHER_SECONDS = 0.03


class Request(NamedTuple):
    """One prompt, how many tokens it may get, and how to sample (temperature, top_k, top_p)."""

    prompt: list[int]
    limit: int
    sampling: tuple[float, int, float]
    answer: asyncio.Future


def _draw(
    logits: torch.Tensor, sampling: tuple[float, int, float], generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Next tokens [n] of ``logits`` [n, V] and their log-probability under the distribution they were drawn from."""
    temperature, top_k, top_p = sampling
    if temperature == 0:
        token = logits.argmax(-1)
        return token, torch.log_softmax(logits, -1).gather(-1, token[:, None])[:, 0]
    logits = logits / temperature
    if top_k > 0:
        smallest = logits.topk(min(top_k, logits.size(-1)), -1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, float("-inf"))
    if top_p < 1.0:
        ordered, positions = logits.sort(-1, descending=True)
        probability = ordered.softmax(-1)
        outside = probability.cumsum(-1) - probability > top_p
        logits = logits.masked_fill(torch.zeros_like(outside).scatter(-1, positions, outside), float("-inf"))
    log_probability = torch.log_softmax(logits, -1)
    token = torch.multinomial(log_probability.exp(), 1, generator=generator)[:, 0]
    return token, log_probability.gather(-1, token[:, None])[:, 0]


class Server:
    """The model that generates. A Ray actor; its weights arrive before the first request."""

    def __init__(self, config: Any, model_config: Any, replica_rank: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        self.config = omega_conf_to_dataclass(config)
        self.model_config = omega_conf_to_dataclass(model_config, dataclass_type=HFModelConfig)
        self.generator = torch.Generator().manual_seed(self.config.seed + replica_rank)
        self.model = AutoModelForCausalLM.from_config(
            self.model_config.hf_config, attn_implementation="sdpa", dtype=torch.float32
        ).eval()
        self.parameters = dict(self.model.named_parameters(remove_duplicate=False))  # tied weights come twice
        tokenizer = self.model_config.tokenizer
        stops = getattr(self.model_config.generation_config, "eos_token_id", None)
        self.stops = {tokenizer.eos_token_id, *([stops] if isinstance(stops, int) else stops or [])}
        self.padding = tokenizer.pad_token_id or 0
        self.global_steps: int | None = None
        self.waiting: asyncio.Queue[Request] = asyncio.Queue()
        self.loop: asyncio.Task | None = None

    async def start(self) -> None:
        self.loop = asyncio.create_task(self._serve())

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **_media: Any
    ) -> TokenOutput:
        parameters = dict(sampling_params)
        limit = parameters.get("max_tokens") or parameters.get("max_new_tokens")
        if limit is None:
            limit = min(
                self.config.response_length,
                self.config.prompt_length + self.config.response_length - len(prompt_ids),
            )
        sampling = (
            float(parameters.get("temperature", 1.0)),
            int(parameters.get("top_k") or -1),
            float(parameters.get("top_p", 1.0)),
        )
        answer = asyncio.get_running_loop().create_future()
        await self.waiting.put(Request(list(prompt_ids), max(1, limit), sampling, answer))
        tokens, log_probabilities = await answer
        return TokenOutput(
            token_ids=tokens,
            log_probs=log_probabilities if parameters.get("logprobs") else None,
            stop_reason="completed",
            extra_fields={"global_steps": self.global_steps},
        )

    async def _serve(self) -> None:
        while True:
            batch = [await self.waiting.get()]
            size = 0
            while len(batch) != size:  # until no more arrive
                size = len(batch)
                await asyncio.sleep(GATHER_SECONDS)
                while not self.waiting.empty() and len(batch) < self.config.max_num_seqs:
                    batch.append(self.waiting.get_nowait())
            by_sampling: dict[tuple[float, int, float], list[Request]] = {}
            for request in batch:
                by_sampling.setdefault(request.sampling, []).append(request)
            for requests in by_sampling.values():
                try:
                    await asyncio.to_thread(self._answer, requests, asyncio.get_running_loop())
                except Exception as error:
                    for request in requests:
                        if not request.answer.done():
                            request.answer.set_exception(error)

    def _answer(self, requests: list[Request], loop: asyncio.AbstractEventLoop) -> None:
        for row, answer in self._decode(requests):
            loop.call_soon_threadsafe(requests[row].answer.set_result, answer)

    @torch.inference_mode()
    def _decode(self, requests: list[Request]) -> Iterator[tuple[int, tuple[list[int], list[float]]]]:
        """Place, tokens and log-probabilities of each request, as it is finished."""
        longest = max(len(request.prompt) for request in requests)
        tokens = torch.full((len(requests), longest), self.padding)
        mask = torch.zeros((len(requests), longest), dtype=torch.long)
        for row, request in enumerate(requests):
            tokens[row, longest - len(request.prompt) :] = torch.tensor(request.prompt)
            mask[row, longest - len(request.prompt) :] = 1
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        output = self.model(
            input_ids=tokens, attention_mask=mask, position_ids=positions, use_cache=True, logits_to_keep=1
        )
        answers: list[tuple[list[int], list[float]]] = [([], []) for _ in requests]
        alive = list(range(len(requests)))
        while True:
            sampling = requests[0].sampling
            token, log_probability = _draw(output.logits[:, -1].float(), sampling, self.generator)
            keep = []
            for place, (row, value, chance) in enumerate(
                zip(alive, token.tolist(), log_probability.tolist(), strict=True)
            ):
                answers[row][0].append(value)
                answers[row][1].append(chance)
                if value not in self.stops and len(answers[row][0]) < requests[row].limit:
                    keep.append(place)
                else:
                    yield row, answers[row]
            if not keep:
                return
            cache = output.past_key_values
            if len(keep) < len(alive):
                chosen = torch.tensor(keep)
                cache.batch_select_indices(chosen)
                token, mask = token[chosen], mask[chosen]
                alive = [alive[place] for place in keep]
            mask = torch.cat([mask, mask.new_ones(len(alive), 1)], -1)
            output = self.model(
                input_ids=token[:, None],
                attention_mask=mask,
                position_ids=mask.sum(-1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )

    async def update_weights(self, weights: list[tuple[str, torch.Tensor]]) -> int:
        with torch.no_grad():
            for name, value in weights:
                self.parameters[name].copy_(value)
        return len(weights)

    async def set_global_steps(self, global_steps: int) -> None:
        self.global_steps = global_steps

    async def _no_operation(self, *_args: Any, **_kwargs: Any) -> None:
        return None

    wake_up = sleep = abort_all_requests = resume_generation = _no_operation
    clear_kv_cache = release_kv_cache = resume_kv_cache = start_profile = stop_profile = _no_operation


class Replica(RolloutReplica):
    """Starts the server on the node of its worker."""

    async def launch_servers(self) -> None:
        node = await self.workers[0].__ray_call__.remote(lambda _worker: ray.get_runtime_context().get_node_id())
        strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
        server = (
            ray.remote(Server)
            .options(
                name=_server_name(self.replica_rank),
                num_cpus=0,
                max_concurrency=self.max_concurrency,
                scheduling_strategy=strategy,
            )
            .remote(self.config, self.model_config, self.replica_rank)
        )
        await server.start.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = f"{NAME}://{self.replica_rank}"


class Rollout(BaseRollout):
    """The client inside each FSDP worker; the first rank of a replica pushes the weights to its server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, *args: Any, replica_rank: int = -1, **kwargs: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        size = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        rank = int(os.environ["RANK"])
        self.replica_rank = rank // size if replica_rank == -1 else replica_rank
        self.leads = rank % size == 0
        self._server: Any = None

    @property
    def server(self) -> Any:
        if self._server is None:
            self._server = ray.get_actor(_server_name(self.replica_rank))
        return self._server

    async def resume(self, tags: list[str]) -> None:
        return None

    async def release(self) -> None:
        return None

    async def update_weights(
        self, weights: Any, wire_format: str = "named_tensors", global_steps: int | None = None, **_kwargs: Any
    ) -> None:
        if wire_format != "named_tensors":
            raise ValueError(f"rollout {NAME} takes named tensors, not {wire_format!r}")
        # Every rank drains the generator: gathering a sharded tensor is a collective.
        named = [(name, value.detach().float().cpu()) for name, value in weights]
        if self.leads:
            await self.server.update_weights.remote(named)
            if global_steps is not None:
                await self.server.set_global_steps.remote(global_steps)


def _server_name(replica_rank: int) -> str:
    return f"{NAME}_server_{replica_rank}"


rollout_base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Rollout"
RolloutReplicaRegistry.register(NAME, lambda: Replica)

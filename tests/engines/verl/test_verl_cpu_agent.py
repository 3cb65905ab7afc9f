"""Less work for each response on a CPU: rows put together are the rows, and what fails fails for its callers."""

from __future__ import annotations

import asyncio
import os

import pytest
import torch
from verl_cases import INSTALLED, needs_verl

pytestmark = needs_verl

if INSTALLED:
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    os.environ.setdefault("VERL_USE_EXTERNAL_MODULES", "harness.engines.verl.cpu_platform")


@pytest.fixture
def queue(monkeypatch):
    """A gathering queue, and what the transfer queue was given: (keys, fields, tags, partition) of each put."""
    from harness.engines.verl import cpu_agent

    puts = []

    async def put(*, keys, fields, tags, partition_id):
        puts.append((list(keys), fields, list(tags), partition_id))
        if "broken" in keys:
            raise RuntimeError("the queue is full")

    monkeypatch.setattr(cpu_agent.transfer_queue, "async_kv_batch_put", put)
    return cpu_agent.GatheringQueue(), puts


def row(key: str, length: int) -> dict:
    return {
        "keys": [key],
        "fields": [{"tokens": torch.arange(length), "info": {"key": key}}],
        "tags": [{"response_len": length}],
    }


def test_rows_that_come_together_are_put_together_by_partition(queue):
    gathering, puts = queue

    async def run():
        await asyncio.gather(
            gathering.async_kv_batch_put(**row("a", 3), partition_id="train"),
            gathering.async_kv_batch_put(**row("b", 5), partition_id="train"),
            gathering.async_kv_batch_put(**row("v", 2), partition_id="val"),
        )
        await gathering.async_kv_batch_put(**row("c", 1), partition_id="train")

    asyncio.run(run())
    assert sorted((keys, partition) for keys, _, _, partition in puts) == [
        (["a", "b"], "train"),
        (["c"], "train"),
        (["v"], "val"),
    ]
    _, fields, tags, _ = next(put for put in puts if put[0] == ["a", "b"])
    assert [tokens.tolist() for tokens in fields["tokens"].unbind()] == [[0, 1, 2], [0, 1, 2, 3, 4]]
    assert [getattr(info, "data", info) for info in fields["info"]] == [{"key": "a"}, {"key": "b"}]
    assert tags == [{"response_len": 3}, {"response_len": 5}]


def test_a_put_that_fails_fails_for_all_whose_rows_were_in_it_and_for_nobody_else(queue):
    gathering, _ = queue

    async def run():
        return await asyncio.gather(
            gathering.async_kv_batch_put(**row("a", 3), partition_id="train"),
            gathering.async_kv_batch_put(**row("broken", 5), partition_id="train"),
            gathering.async_kv_batch_put(**row("v", 2), partition_id="val"),
            return_exceptions=True,
        )

    found = asyncio.run(run())
    assert [str(error) for error in found[:2]] == ["the queue is full"] * 2
    assert found[2] is None


def test_a_caller_that_is_cancelled_takes_nobody_elses_rows_along(queue):
    gathering, puts = queue

    async def run():
        first = asyncio.create_task(gathering.async_kv_batch_put(**row("a", 3), partition_id="train"))
        second = asyncio.create_task(gathering.async_kv_batch_put(**row("b", 5), partition_id="train"))
        await asyncio.sleep(0)
        first.cancel()
        await second

    asyncio.run(run())
    assert [keys for keys, *_ in puts] == [["a", "b"]]


def test_everything_else_is_the_transfer_queues_own(queue):
    gathering, _ = queue
    from harness.engines.verl import cpu_agent

    assert gathering.kv_list is cpu_agent.transfer_queue.kv_list


def test_rows_with_other_fields_are_put_apart(queue):
    gathering, puts = queue
    rows = [row(key, length) for key, length in (("a", 3), ("b", 5), ("c", 2), ("d", 4))]
    rows[1]["fields"][0]["experts"] = torch.ones(5)
    rows[2]["fields"][0]["tokens"] = None

    async def run():
        await asyncio.gather(*(gathering.async_kv_batch_put(**one, partition_id="train") for one in rows))

    asyncio.run(run())
    assert [keys for keys, *_ in puts] == [["a", "d"], ["b"], ["c"]]
    assert [sorted(fields.keys()) for _, fields, _, _ in puts] == [
        ["info", "tokens"],
        ["experts", "info", "tokens"],
        ["info", "tokens"],
    ]
    assert [tags for _, _, tags, _ in puts] == [
        [{"response_len": 3}, {"response_len": 4}],
        [{"response_len": 5}],
        [{"response_len": 2}],
    ]


def test_the_one_server_is_asked_for_once_and_the_client_keeps_what_verl_gave_it(monkeypatch):
    from harness.engines.verl.cpu_agent import LLMServerClient, OneServerClient

    asked = []

    async def acquire(self, request_id, **extra):
        asked.append((request_id, extra))
        return "server", "handle"

    monkeypatch.setattr(LLMServerClient, "_acquire_server", acquire)
    given = LLMServerClient(config={"a": 1}, load_balancer_handle="balancer")
    given.tokenizer = "its tokenizer"
    client = OneServerClient.of(given)
    assert (client.config, client._load_balancer, client.tokenizer) == ({"a": 1}, "balancer", "its tokenizer")

    async def run():
        first = await client._acquire_server("r1", prompt_ids=[1])
        client._release_server("server", request_id="r1")
        return first, await client._acquire_server("r2", prompt_ids=[2])

    assert asyncio.run(run()) == (("server", "handle"), ("server", "handle"))
    assert asked == [("r1", {"prompt_ids": [1]})]
    assert type(given) is LLMServerClient


@pytest.mark.parametrize(
    ("agent", "made", "by_verl"),
    [("single_turn_agent", True, False), ("single_turn_agent", False, True), ("tool_agent", True, True)],
)
def test_only_verls_single_turn_loop_is_shared(monkeypatch, agent, made, by_verl):
    from harness.engines.verl.cpu_agent import AgentLoopWorker

    calls = []

    async def as_verl(self, sampling_params, trajectory, *, agent_name, trace=True, **columns):
        calls.append(("verl", agent_name, columns))

    class Loop:
        async def run(self, sampling_params, **columns):
            calls.append(("shared", columns))
            return "output"

    async def postprocess(self, output, validate, **columns):
        calls.append(("postprocess", output, validate, columns))

    monkeypatch.setattr(AgentLoopWorker.__mro__[1], "_run_agent_loop", as_verl)
    monkeypatch.setattr(AgentLoopWorker, "_agent_loop_postprocess", postprocess)
    worker = AgentLoopWorker.__new__(AgentLoopWorker)
    worker._single_turn = Loop() if made else None
    asyncio.run(worker._run_agent_loop({}, {"validate": False}, agent_name=agent, uid="a"))
    columns = {"uid": "a"}
    shared = [("shared", columns), ("postprocess", "output", False, columns)]
    assert calls == ([("verl", agent, columns)] if by_verl else shared)


def test_this_verl_has_what_the_cpu_path_relies_on(monkeypatch):
    from harness.engines.verl import compatibility

    assert compatibility.check(compatibility.ON_A_CPU) is None
    changed = {**compatibility.ON_A_CPU, "verl.trainer.ppo.v1.agent_loop_tq:gone": ("rows",)}
    with pytest.raises(compatibility.IncompatibleVerlError, match="agent_loop_tq:gone is missing"):
        compatibility.check(changed)


@pytest.mark.parametrize("shape", [(40,), (3, 14)])
def test_log_probabilities_of_all_tokens_at_once_are_verls(monkeypatch, shape):
    from verl.utils import torch_functional

    from harness.engines.verl import cpu_platform

    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(*shape, 11, generator=generator) * 8
    labels = torch.randint(0, 11, shape, generator=generator)
    outside = torch.randn(*shape, generator=generator)
    called = []
    found = {}
    for limit in (0, drawn.numel()):
        monkeypatch.setattr(cpu_platform, "AT_ONCE", limit)
        with monkeypatch.context() as patch:
            patch.setattr(
                torch_functional, "gather_from_labels", lambda data, label: called.append(1) or _pick(data, label)
            )
            logits = drawn.clone().requires_grad_()
            values = torch_functional.logprobs_from_logits(logits, labels)
        values.backward(outside)
        found[limit] = values.detach(), logits.grad
    assert len(called) == 1  # the one way and the other
    for one_by_one, at_once in zip(*found.values(), strict=True):
        torch.testing.assert_close(at_once, one_by_one)
    expected = torch.log_softmax(drawn.double(), -1).gather(-1, labels[..., None])[..., 0]
    torch.testing.assert_close(found[0][0].double(), expected, atol=1e-5, rtol=1e-5)


def _pick(data, label):
    return data.gather(-1, label[..., None])[..., 0]


def test_fields_of_a_row_are_tensors_or_not(monkeypatch):
    from tensordict import NonTensorStack, TensorDict

    from harness.engines.verl import fields

    asked = []

    def get(keys, partition_id):
        asked.append((keys, partition_id))
        return TensorDict(
            {
                "input_ids": torch.nested.as_nested_tensor([torch.arange(4)], layout=torch.jagged),
                "rm_scores": torch.zeros(1, 2),
                "raw_prompt": NonTensorStack([{"role": "user"}]),
                "index": NonTensorStack(3),
            },
            batch_size=[1],
        )

    monkeypatch.setattr(fields.tq, "kv_batch_get", get)
    assert fields.row_fields("a_0_0", "train") == ({"input_ids", "rm_scores"}, {"raw_prompt", "index"})
    assert asked == [(["a_0_0"], "train")]

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


def test_log_probabilities_of_all_tokens_at_once_are_verls():
    from verl.utils import torch_functional

    from harness.engines.verl import cpu_platform  # noqa: F401

    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(40, 11, generator=generator, dtype=torch.float64) * 8
    labels = torch.randint(0, 11, (40,), generator=generator)
    one_by_one = torch.stack([row[label] - torch.logsumexp(row, -1) for row, label in zip(logits, labels, strict=True)])
    torch.testing.assert_close(torch_functional.logprobs_from_logits_naive(logits, labels), one_by_one)

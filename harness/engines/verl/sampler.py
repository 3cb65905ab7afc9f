"""Dynamic group filtering with an end: which finished groups of a generation batch are trained on.

verl's own filter generates until it has enough groups and ignores a limit. This sampler waits for the whole generation
batch, keeps the groups that carry a signal, asks for another batch while too few are kept, and stops asking at the
limit; the step is then trained on what was kept. Without a filter it only waits, and stops the run when a group
failed. Used through ``trainer.v1.sampler.custom_sampler``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from harness import aggregation
from harness.engines.verl.estimators import read_channel
from harness.engines.verl.fields import reward_infos
from harness.engines.verl.metrics import response_metrics
from harness.engines.verl.naming import FAILED_GROUP, place_of

POLL_SECONDS = 0.1
TRAINING = "train"


class NoInformativeGroupError(RuntimeError):
    """No group of any generation batch of a step carries a signal."""


class FailedGroupsError(RuntimeError):
    """Generation or the reward function raised for some groups."""


class GroupSampler(ReplayBuffer):
    """``sampler_kwargs``: ``filter`` (none, sum, any_channel), ``channels``, ``needed`` groups, ``candidates`` groups
    of a generation batch and ``max_batches`` of them a step."""

    def __init__(self, **arguments: Any) -> None:
        arguments["poll_interval"] = POLL_SECONDS
        super().__init__(**arguments)
        settings = self.sampler_kwargs
        self.filter = str(settings["filter"])
        self.channels = [str(name) for name in settings["channels"]]
        self.needed = int(settings["needed"])
        self.max_batches = int(settings.get("max_batches") or 1)
        self.candidates: int | None = int(settings["candidates"]) if self.filter != "none" else None
        self._order: dict[str, int] = {}

    def expect(self, uids: list[str]) -> None:
        """Remember the order in which groups were submitted; they are kept in that order."""
        for uid in uids:
            self._order[str(uid)] = len(self._order)

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[Any, dict[str, float]]:
        if partition_id != TRAINING:
            self._wait(partition_id, batch_size)
            self._refuse_failures(partition_id)
            return self._take(partition_id, self._finished(partition_id)[:batch_size]), {}
        if self.candidates is None:
            self._wait(partition_id, batch_size)
            self._refuse_failures(partition_id)
            chosen = self._finished(partition_id)[:batch_size]
            metrics: dict[str, float] = {}
        else:
            chosen, metrics = self._filtered(partition_id, batch_size)
        batch = self._take(partition_id, chosen)
        self._order.clear()
        return batch, metrics

    def _filtered(self, partition_id: str, needed: int) -> tuple[list[str], dict[str, float]]:
        kept: list[str] = []
        seen: list[_Responses] = []
        batches = 0
        while True:
            batches += 1
            self._wait(partition_id, len(kept) + int(self.candidates or 0))
            self._refuse_failures(partition_id)
            fresh = [uid for uid in self._finished(partition_id) if uid not in set(kept)]
            seen.append(self._responses(partition_id, fresh))
            informative = seen[-1].informative(self.filter)
            dropped = {uid for uid in fresh if uid not in informative}
            self._clear_groups(partition_id, dropped)
            kept.extend(uid for uid in fresh if uid in informative)
            if len(kept) >= needed or batches >= self.max_batches:
                break
            assert self.refill_fn is not None
            self.refill_fn(self.candidates)
        responses = _Responses.joined(seen)
        count = len(set(responses.groups))
        if not kept:
            raise NoInformativeGroupError(
                f"none of {count} groups in {batches} generation batch(es) carries a signal (training.filter="
                f"{self.filter}): every response of a group has the same reward. Use easier or harder prompts, a "
                "larger group_size, or training.filter=any_channel; training.filter=none trains on all groups"
            )
        surplus = kept[needed:]
        self._clear_groups(partition_id, set(surplus))
        metrics = responses.metrics() | {
            "filter/candidates": float(count),
            "filter/kept": float(len(kept)),
            "filter/needed": float(needed),
            "filter/discarded": float(count - min(len(kept), needed)),
            "filter/generation_batches": float(batches),
        }
        return kept[:needed], metrics

    # What the queue holds.

    def _wait(self, partition_id: str, count: int) -> None:
        """Until no group is pending or running and at least ``count`` are there."""
        last_report = time.time()
        while True:
            self._sync_metadata_from_transfer_queue()
            unfinished = self.pending_keys[partition_id] | self.running_keys[partition_id]
            ended = self.finished_keys[partition_id] | self.failure_keys[partition_id]
            if not unfinished and len(ended) >= count:
                return
            last_report = self._wait_for_next_poll(partition_id, last_report)

    def _refuse_failures(self, partition_id: str) -> None:
        failed = self.failure_keys[partition_id]
        if failed:
            total = len(failed) + len(self.finished_keys[partition_id])
            raise FailedGroupsError(
                f"generation or the reward function raised an error for {len(failed)} of {total} groups; the "
                f"traceback is above (look for '{FAILED_GROUP}')"
            )

    def _finished(self, partition_id: str) -> list[str]:
        finished = self.finished_keys[partition_id]
        return sorted(finished, key=lambda uid: (self._order.get(uid, len(self._order)), uid))

    def _responses(self, partition_id: str, uids: list[str]) -> _Responses:
        """The responses of these groups: of each the last output, which is the one that is scored."""
        wanted, tags = set(uids), self.partitions[partition_id]
        last: dict[tuple[str, int], tuple[int, str]] = {}
        for key in tags:
            uid, session, output = place_of(key)
            if uid in wanted and ((uid, session) not in last or last[uid, session][0] < output):
                last[uid, session] = (output, key)
        keys = [key for _, key in last.values()]
        infos = reward_infos(keys, partition_id)
        return _Responses(
            groups=[place_of(key)[0] for key in keys],
            infos=infos,
            channels={name: read_channel(name, infos, range(len(infos))) for name in self.channels},
            lengths=np.array([int(tags[key]["response_len"]) for key in keys], dtype=np.int64),
        )

    def _take(self, partition_id: str, uids: list[str]) -> Any:
        """The batch in the order of its prompts. The queue's order is that in which responses were finished: cut into
        mini-batches it would put short responses first and long ones last, and tear groups apart."""
        place = {uid: number for number, uid in enumerate(uids)}

        def order(key: str) -> tuple[int, int, int]:
            uid, session, output = place_of(key)
            return place.get(uid, -1), session, output

        tags = self.partitions[partition_id]
        return self._materialize_batch(partition_id, uids, {key: tags[key] for key in sorted(tags, key=order)})


@dataclass(frozen=True)
class _Responses:
    """N responses: their groups, what the reward function returned, the channels [N] and the lengths [N]."""

    groups: list[str]
    infos: list[Mapping[str, Any]]
    channels: dict[str, NDArray[np.float64]]
    lengths: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: list[_Responses]) -> _Responses:
        return cls(
            groups=[group for part in parts for group in part.groups],
            infos=[info for part in parts for info in part.infos],
            channels={name: np.concatenate([part.channels[name] for part in parts]) for name in parts[0].channels},
            lengths=np.concatenate([part.lengths for part in parts]),
        )

    def informative(self, mode: str) -> set[str]:
        """Groups that carry a signal."""
        kept = aggregation.group_filter(self.channels, self.groups, list(self.channels), mode)
        return {label for label, keep in zip(dict.fromkeys(self.groups), kept.tolist(), strict=True) if keep}

    def metrics(self) -> dict[str, float]:
        """The step's metrics before the filter."""
        batch = aggregation.prepare(self.channels, self.groups, channels=list(self.channels))
        density = batch.active(batch.advantages()).mean(axis=0)
        before = {f"density_before_filter/{name}": float(density[k]) for k, name in enumerate(self.channels)}
        return before | response_metrics(self.infos, self.channels, self.lengths)

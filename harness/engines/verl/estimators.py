"""One verl advantage estimator per aggregation method; the numbers are those of ``harness.aggregation.aggregate``.

verl hands an estimator the summed token rewards and the group labels, but not the reward channels. The trainer
(:mod:`harness.engines.verl.trainer`) provides them around the call with :func:`channels_of_batch`.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from harness import aggregation
from harness.aggregation.parameters import step_parameters
from harness.engines.reward_kl import SUMMED_REWARD_METHODS as SUMMED_REWARD_METHODS
from harness.errors import UserError

RESERVED = (
    *("gae", "gdpo", "gpg", "grpo", "grpo_passk", "grpo_vectorized", "opo", "optimal_token_baseline"),
    *("reinforce_plus_plus", "reinforce_plus_plus_baseline", "remax", "rloo", "rloo_vectorized"),
    "tir_optimal_token_baseline",
)
"""Names that verl itself gives an estimator; ours carry a prefix there."""

PREFIX = "harness_"


def estimator_name(method: str) -> str:
    """``algorithm.adv_estimator`` for ``method``: its own name, or ``harness_NAME`` where verl has one of that name."""
    return PREFIX + method if method in RESERVED else method


def method_of(estimator: str) -> str:
    """The method behind a name that :func:`estimator_name` gave."""
    name = estimator.removeprefix(PREFIX)
    return name if name in RESERVED else estimator


@dataclass
class ChannelBatch:
    """The reward channels of one batch of R rows, and what the estimator found out about them.

    infos: per row what the reward function returned beside the score.  padding [R]: rows that verl added.
    progress: share of the training that is done, 0 at the first step, 1 at the last.
    penalty: what the KL term added to each scored response's reward [N], None where the method does not see it.
    sessions: per row the response it belongs to, and which of its outputs it is; only the last is scored, the others
    share its advantage (verl's rule for trajectories of several outputs).
    """

    infos: Sequence[Mapping[str, Any]]
    padding: NDArray[np.bool_]
    sessions: Sequence[tuple[Hashable, int]]
    progress: float = 0.0
    method: str | None = None
    result: aggregation.Aggregation | None = None
    channels: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    lengths: NDArray[np.int64] | None = None
    rows: NDArray[np.intp] | None = None
    penalty: NDArray[np.float64] | None = None


_CURRENT: contextvars.ContextVar[ChannelBatch | None] = contextvars.ContextVar("channels_of_batch", default=None)


@contextlib.contextmanager
def channels_of_batch(batch: ChannelBatch) -> Iterator[ChannelBatch]:
    """Make ``batch`` the one that an estimator called inside works on; its result is left in it."""
    token = _CURRENT.set(batch)
    try:
        yield batch
    finally:
        _CURRENT.reset(token)


def make_estimator(method: str) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """The estimator of ``method``. Reads ``algorithm.reward_keys`` (the channels, in order) and optionally
    ``algorithm.normalization``, ``algorithm.method_parameters``, ``algorithm.reward_bounds`` ((low, high) by
    channel, for methods that ask for them) and ``algorithm.method_file``."""

    def estimator(
        token_level_rewards: torch.Tensor,
        response_mask: torch.Tensor,
        config: Any = None,
        index: Any = None,
        **_unused: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """token_level_rewards, response_mask [R, T]; index [R] group labels. Twice the advantages [R, T], float32,
        zero where the mask is."""
        batch = _CURRENT.get()
        if batch is None:
            raise RuntimeError(
                f"algorithm.adv_estimator={estimator_name(method)} got no reward channels. It needs verl's default "
                "trainer: trainer.use_v1=True, trainer.v1.trainer_mode=sync"
            )
        values = _advantages(method, batch, token_level_rewards, response_mask, config, index)
        spread = torch.as_tensor(values, dtype=torch.float32, device=response_mask.device)
        advantages = response_mask.to(torch.float32, copy=True).mul_(spread[:, None])
        return advantages, advantages

    estimator.__name__ = estimator.__qualname__ = f"{estimator_name(method)}_advantage"
    return estimator


def is_ours(estimator: Any) -> bool:
    """Whether one of verl's registered estimators was made here."""
    return getattr(estimator, "__module__", "") == __name__


def register_method(method: str) -> None:
    """Give verl the estimator of a method, by :func:`estimator_name`. RuntimeError where another one has that name."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    name = estimator_name(method)
    if name not in ADV_ESTIMATOR_REGISTRY:
        register_adv_est(name)(make_estimator(method))
    elif not is_ours(ADV_ESTIMATOR_REGISTRY[name]):
        raise RuntimeError(f"method {method}: this verl has an advantage estimator of that name; rename the method")


def register_own_method(algorithm: Any) -> None:
    """The estimator of a method in a file of the user's. UserError where its name means one of verl's."""
    if not algorithm.get("method_file", None):
        return
    name = str(algorithm.adv_estimator)
    if name in RESERVED:
        raise UserError(
            f"algorithm.adv_estimator={name} is verl's own; for {name} of algorithm.method_file write "
            f"algorithm.adv_estimator={estimator_name(name)}"
        )
    register_method(method_of(name))


def _advantages(
    method: str, batch: ChannelBatch, token_rewards: torch.Tensor, mask: torch.Tensor, config: Any, index: Any
) -> NDArray[np.float64]:
    settings = _Settings.of(config, batch)
    rows, row_of = scored_rows(batch)
    chosen = aggregation.load_method(settings.file, method) if settings.file else aggregation.get_method(method)
    batch.rows, batch.method = rows, chosen.name
    parameters = step_parameters(chosen, settings.parameters, bounds=settings.bounds or {}, progress=batch.progress)
    batch.channels = {name: read_channel(name, batch.infos, rows) for name in settings.channels}
    batch.lengths = mask.sum(-1).to(torch.int64).cpu().numpy()[rows]
    labels = np.asarray(index, dtype=object)[rows]
    prepared = aggregation.prepare(batch.channels, labels, channels=settings.channels, lengths=batch.lengths)
    batch.result = aggregation.aggregate_batch(chosen, prepared, normalization=settings.normalization, **parameters)
    advantages = batch.result.advantages
    if method in SUMMED_REWARD_METHODS and settings.reward_kl:
        summed = np.nansum(np.stack(list(batch.channels.values())), axis=0)
        batch.penalty = _penalty(token_rewards, batch, rows)
        total = summed + batch.penalty
        advantages = aggregation.aggregate(
            chosen, total[:, None], labels, channels=["sum"], lengths=batch.lengths, **parameters
        ).advantages
    spread = np.zeros(len(batch.padding))
    has_response = row_of >= 0
    spread[has_response] = advantages[row_of[has_response]]
    return spread


def _penalty(token_rewards: torch.Tensor, batch: ChannelBatch, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """What verl took off each scored response for KL [N]: the sum of its token rewards less its score."""
    scores = np.array([float(batch.infos[row]["score"]) for row in rows])
    return token_rewards.double().sum(-1).cpu().numpy()[rows] - scores.astype(np.float32).astype(np.float64)


def scored_rows(batch: ChannelBatch) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows that are scored [N] (the last output of each response, no padding), and for each row of the batch its
    place among them, -1 for padding."""
    last: dict[Hashable, tuple[int, int]] = {}
    for row, (session, output) in enumerate(batch.sessions):
        if not batch.padding[row] and (session not in last or last[session][0] < output):
            last[session] = (output, row)
    place = {session: number for number, session in enumerate(last)}
    rows = np.array([row for _, row in last.values()], dtype=np.intp)
    spread = [-1 if batch.padding[row] else place[session] for row, (session, _) in enumerate(batch.sessions)]
    return rows, np.array(spread, dtype=np.intp)


def read_channel(name: str, infos: Sequence[Mapping[str, Any]], rows: Sequence[int] | NDArray[Any]) -> Any:
    """Channel ``name`` of the given rows as float64 [N]; None becomes NaN (a missing reward).

    Raises KeyError-free ValueErrors: a channel no response has names the keys found, a channel that some lack says
    how many; a value that is no number and an infinite one name the value.
    """
    absent = [row for row in rows if name not in infos[row]]
    if absent:
        found = sorted({key for row in rows for key in infos[row]})
        raise ValueError(
            f"the reward function returned no channel {name!r} for {len(absent)} of {len(rows)} responses; "
            f"keys found: {', '.join(found) or 'none'}. Return it for every response (None where it is not known), or "
            f"name the right keys in algorithm.reward_keys"
        )
    values = [infos[row][name] for row in rows]
    try:
        array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        wrong = next(value for value in values if not isinstance(value, int | float | np.number | None))
        raise ValueError(f"channel {name!r} holds {wrong!r}, which is no number; return a float or None") from None
    if np.isinf(array).any():
        raise ValueError(
            f"channel {name!r} is infinite for {int(np.isinf(array).sum())} of {len(rows)} responses; "
            "return a finite number, or None for a missing reward"
        )
    return array


@dataclass(frozen=True)
class _Settings:
    channels: list[str]
    normalization: str | None
    parameters: dict[str, Any]
    file: str | None
    bounds: dict[str, Any] | None
    reward_kl: bool

    @classmethod
    def of(cls, config: Any, batch: ChannelBatch) -> _Settings:
        plain = config if isinstance(config, Mapping) or hasattr(config, "get") else {}
        keys = plain.get("reward_keys")
        if not keys:
            found = sorted({key for info in batch.infos for key in info})
            raise ValueError(
                "algorithm.reward_keys is not set: name the reward channels in order, e.g. "
                f"'+algorithm.reward_keys=[correctness,format]'; the reward function returns "
                f"{', '.join(found) or 'none'}"
            )
        return cls(
            channels=[str(key) for key in keys],
            normalization=plain.get("normalization"),
            parameters=_plain(plain.get("method_parameters") or {}),
            file=plain.get("method_file"),
            bounds=_plain(plain.get("reward_bounds")),
            reward_kl=bool(plain.get("use_kl_in_reward", False)),
        )


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return value

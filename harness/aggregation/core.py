"""The face: from rewards and group labels to one advantage per response, by any method."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.aggregation.batch import Batch, prepare
from harness.aggregation.definition import Method, Scores
from harness.aggregation.density import Bools, Floats, density, energy
from harness.aggregation.inputs import suggestion
from harness.aggregation.normalize import NORMALIZATIONS, normalize
from harness.aggregation.parameters import checked
from harness.aggregation.registry import get_method


@dataclass(frozen=True)
class Aggregation:
    """Advantages of a batch of N responses in B groups on K channels, and what they were made of.

    advantages [N]: the value on each valid token of the response; 0 for a response without any reward or valid token.
    scores [N]: S, before the final normalisation.
    channel_advantages [N, K]: A of each channel (arXiv 2610.00574, section 3), as the method used it.
    active [B, K]: in which groups a channel is active.  groups: the B labels, in the order of those rows. A group
    none of whose responses has a reward is not among them.
    density, energy, weights, missing, cap_hit: by channel name; energy is that of channel_advantages, unweighted;
    weights is the multiplier the method gave the channel; missing counts its absent rewards; cap_hit says whether
    a cap cut the weight.
    left_out: responses without any reward.  method: its name.  normalization: what was applied at the end,
    None for a method without one.
    """

    advantages: Floats
    scores: Floats
    channel_advantages: Floats
    active: Bools
    groups: list[Hashable]
    density: dict[str, float]
    energy: dict[str, float]
    weights: dict[str, float]
    missing: dict[str, int]
    cap_hit: dict[str, bool]
    left_out: int
    method: str
    normalization: str | None


def aggregate(
    method: str | Method,
    rewards: Any,
    groups: Any,
    *,
    channels: Sequence[str],
    lengths: Any = None,
    normalization: str | None = None,
    **params: Any,
) -> Aggregation:
    """Advantages of a rollout batch.

    method: a name of :func:`method_names` or a :class:`Method`.
    rewards: [N, K] numbers (array, nested list, tensor), or channel -> [N] (mapping or table). Any float type, int or
        bool; all statistics are float64. NaN or None is a missing reward: left out of its channel's statistics,
        advantage 0 there, counted. A response without any reward is left out altogether.
    groups: N hashable labels, in any order; the exact label identifies the group.
    channels: the K channel names, in the order of the columns.
    lengths: [N] valid tokens of each response; needed for ``token``. A response of 0 tokens gets advantage 0 (no token
        would carry it); its rewards count in its group.
    normalization: ``response`` (also for None) or ``token``; no effect for a method without a final normalisation.
    params: the method's parameters, see :func:`method_parameters`.

    A channel that is constant in a group, and a group of one response, give advantage 0 there.
    Raises ValueError for anything malformed: it names the channel, group, parameter and value, and the nearest valid
    name. Among these: an infinite reward, an empty batch, a batch in which every group has one response.
    """
    return aggregate_batch(
        method, prepare(rewards, groups, channels=channels, lengths=lengths), normalization=normalization, **params
    )


def aggregate_batch(
    method: str | Method, batch: Batch, *, normalization: str | None = None, **params: Any
) -> Aggregation:
    """:func:`aggregate` for a batch from :func:`prepare`: to run several methods on the same rewards."""
    chosen = get_method(method)
    kind = "response" if normalization is None else normalization
    if kind not in NORMALIZATIONS:
        raise ValueError(f"unknown normalization {kind!r}; {suggestion(kind, NORMALIZATIONS)}")
    if kind == "token" and chosen.final_normalization and batch.lengths is None:
        raise ValueError("normalization 'token' needs lengths, the number of valid tokens of each response")
    values = checked(chosen, params, batch.channels)
    if batch.sizes.max() < 2:
        raise ValueError(
            f"every one of the {len(batch.sizes)} groups has one response, so no response can be compared; "
            "check the group labels"
        )
    answer = _answer(chosen, chosen(batch, **values), batch)
    advantages = answer.scores
    if chosen.final_normalization:
        advantages = normalize(advantages, kind, batch.lengths, answer.kept)
    if answer.scale is not None:
        advantages = advantages * answer.scale
    if batch.lengths is not None:
        advantages = np.where(batch.lengths > 0, advantages, 0.0)
    used = batch.advantages() if answer.advantages is None else answer.advantages
    active = batch.active(used, values["tau"]) if "tau" in values else batch.active(used)
    ones = np.ones(len(batch.channels))
    uncut = np.zeros(len(batch.channels), dtype=bool)

    def named(row: Any, kind: type) -> dict[str, Any]:
        return {name: kind(value) for name, value in zip(batch.channels, row, strict=True)}

    return Aggregation(
        advantages=batch.scatter(advantages),
        scores=batch.scatter(answer.scores),
        channel_advantages=batch.scatter(used),
        active=active,
        groups=list(batch.labels),
        density=named(density(active), float),
        energy=named(energy(used), float),
        weights=named(ones if answer.weights is None else answer.weights, float),
        missing=named(batch.missing, int),
        cap_hit=named(uncut if answer.cap_hit is None else answer.cap_hit, bool),
        left_out=batch.left_out,
        method=chosen.name,
        normalization=kind if chosen.final_normalization else None,
    )


def _answer(method: Method, returned: Any, batch: Batch) -> Scores:
    """The method's answer as :class:`Scores`, checked: a method may be anyone's."""
    answer = returned if isinstance(returned, Scores) else Scores(returned)
    shape = np.shape(answer.scores)
    if shape != (len(batch.rewards),):
        raise ValueError(f"method {method.name!r} returned scores of shape {shape}, not [{len(batch.rewards)}]")
    if not np.isfinite(answer.scores).all():
        row = int(np.argmin(np.isfinite(answer.scores)))
        label = batch.spread(np.arange(len(batch.labels)))[row]
        raise ValueError(
            f"method {method.name!r} returned score {answer.scores[row]} for response {int(batch.positions[row])} "
            f"of group {batch.labels[label]!r}; scores must be finite"
        )
    return answer

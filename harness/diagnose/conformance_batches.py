"""Golden batches that tell implementations apart, and what is published about those that are not installed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

CHANNELS = ("first", "second")

Groups = Sequence[Sequence[tuple[float | None, float | None]]]


@dataclass(frozen=True)
class Golden:
    """groups: for each group its responses, each a reward on both of :data:`CHANNELS` (None: missing). tokens: valid
    tokens of each response, 5 where not given. shows: what implementations do differently on it."""

    name: str
    shows: str
    groups: Groups
    tokens: Sequence[int] = field(default=())

    @property
    def rewards(self) -> list[list[float | None]]:
        return [list(response) for group in self.groups for response in group]

    @property
    def labels(self) -> list[str]:
        return [f"prompt {place}" for place, group in enumerate(self.groups) for _ in group]

    @property
    def lengths(self) -> list[int]:
        return list(self.tokens) or [5] * len(self.labels)

    @property
    def even(self) -> bool:
        return len({len(group) for group in self.groups}) == 1


BATCHES = (
    Golden(
        "plain",
        "nothing special: two groups, both rewards vary",
        [[(1, 1), (0, 1), (1, 0), (0, 0)], [(1, 0), (1, 1), (1, 1), (0, 1)]],
    ),
    Golden(
        "small spread",
        "eps: rewards that differ by a thousandth",
        [[(0.500, 0.1), (0.501, 0.1), (0.500, 0.1), (0.501, 0.1)], [(0.2, 1), (0.2, 0), (0.2, 1), (0.2, 1)]],
    ),
    Golden("pairs", "ddof: groups of two", [[(1, 0), (0, 1)], [(1, 1), (0, 0)], [(0, 1), (0, 0)]]),
    Golden(
        "one long response",
        "final normalisation: over responses or over tokens",
        [[(1, 1), (0, 0)], [(1, 1), (0, 0)]],
        (10, 10, 1000, 10),
    ),
    Golden("group of one", "a response without a peer", [[(1, 1), (0, 0)], [(1, 0), (0, 0)], [(1, 1)]]),
    Golden(
        "missing reward",
        "a reward that is NaN or None",
        [[(1, 1), (0, None), (1, 0), (0, 0)], [(1, 0), (1, 1), (1, 1), (0, 1)]],
    ),
    Golden(
        "dead channel",
        "a reward that is 0.1 everywhere; in float32 its deviations need not be zero",
        [[(1, 0.1), (0, 0.1), (1, 0.1)], [(0, 0.1), (0, 0.1), (1, 0.1)]],
    ),
    Golden(
        "hidden by the sum",
        "rewards that vary while their sum does not",
        [[(1, 0), (0, 1), (1, 0), (0, 1)], [(1, 1), (0, 1), (1, 1), (1, 1)]],
    ),
)

PUBLISHED: dict[str, dict[str, str]] = {
    "this project": {
        "eps": "1e-6",
        "ddof": "1",
        "whitening": "response or token, by option",
        "group of one": "0",
        "NaN": "left out and counted",
        "dead channel": "0 exactly, weight 1",
    },
    "verl": {
        "eps": "1e-6",
        "ddof": "1",
        "whitening": "token",
        "group of one": "the raw reward",
        "NaN": "propagates",
        "dead channel": "-",
    },
    "TRL": {
        "eps": "1e-4",
        "ddof": "1",
        "whitening": "response",
        "group of one": "0",
        "NaN": "left out; adds 0 to a sum",
        "dead channel": "-",
    },
    "ms-swift": {"eps": "1e-8", "group of one": "0"},
    "OpenRLHF": {"eps": "1e-9"},
    "open-instruct": {"ddof": "0"},
    "rLLM": {"ddof": "0"},
    "NeMo-RL": {"group of one": "0"},
    "DARA, released tool-calling code": {"dead channel": "logs weight 5; the advantage is 0"},
    "DARA, released maths code": {"dead channel": "logs weight 1; the advantage is 0"},
}
ASPECTS = ("eps", "ddof", "whitening", "group of one", "NaN", "dead channel")

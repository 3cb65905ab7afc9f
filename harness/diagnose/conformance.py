"""Golden batches through this project and through verl and TRL, where installed: `conformance` prints each difference.

For every batch and method the table says whether another implementation gives the same advantages, with which options
of this project (normalization, eps, ddof) it does, or by how much it differs. A difference is no failure:
implementations differ on purpose. What is published about those that are not installed follows, marked as not run.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.aggregation import aggregate
from harness.diagnose.conformance_batches import ASPECTS, BATCHES, CHANNELS, PUBLISHED, Golden
from harness.diagnose.conformance_peers import Floats, NotExpressible, Peer, peers
from harness.diagnose.text import clean, table
from harness.errors import UserError

METHODS = ("grpo", "gdpo")
SAME = 1e-4
"""Advantages (of size 1) that differ by no more are the same: peers compute in float32."""

FINAL_EPS = "final eps"
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"normalization": "token"},
    {"eps": 1e-4},
    {"eps": 1e-4, FINAL_EPS: 1e-4},
    {"eps": 1e-4, "normalization": "token"},
    {"ddof": 0},
    {"ddof": 0, "normalization": "token"},
)
"""Ways to compute it, the default first (normalization response, eps 1e-6 and 1e-6 in the final normalisation, ddof 1).
``final eps`` is no option of the project: it is computed here from the scores."""


@dataclass(frozen=True)
class Comparison:
    """difference: largest absolute one to the project's default, None where it is not finite or was not computed.
    verdict: same, same with (and the options), differs, not finite, not expressible or error."""

    batch: str
    shows: str
    method: str
    peer: str
    ours: list[float]
    theirs: list[float | None] | None
    difference: float | None
    verdict: str
    detail: str


def ours(method: str, golden: Golden, **options: Any) -> Floats:
    """Advantages [N] of the project; ``final eps`` replaces the eps of the final normalisation over responses."""
    given = {name: value for name, value in options.items() if name != FINAL_EPS}
    found = aggregate(method, golden.rewards, golden.labels, channels=list(CHANNELS), lengths=golden.lengths, **given)
    if FINAL_EPS not in options or found.normalization is None:
        return found.advantages
    scores = found.scores
    return np.asarray((scores - scores.mean()) / (scores.std(ddof=1) + options[FINAL_EPS]))


def compare(method: str, golden: Golden, peer: Peer) -> Comparison:
    mine = ours(method, golden)

    def verdict(name: str, detail: str, theirs: Floats | None = None, difference: float | None = None) -> Comparison:
        listed = None if theirs is None else [None if not np.isfinite(x) else round(float(x), 6) for x in theirs]
        shown = [round(float(x), 6) for x in mine]
        return Comparison(
            golden.name,
            golden.shows,
            method,
            peer.name,
            shown,
            listed,
            difference,
            name,
            detail,
        )

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = peer.run(method, golden)
    except NotExpressible as error:
        return verdict("not expressible", str(error))
    except Exception as error:  # another package's: reported, the table goes on
        return verdict("error", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    if not np.isfinite(theirs).all():
        return verdict("not finite", f"{int((~np.isfinite(theirs)).sum())} of {len(theirs)} advantages", theirs)
    difference = float(np.abs(theirs - mine).max())
    offsets = [float(np.abs(theirs - ours(method, golden, **options)).max()) for options in OPTIONS]
    # Several options may agree up to float32: the first of them, which is the simplest, is the explanation.
    best = next((place for place, offset in enumerate(offsets) if offset <= SAME / 10), int(np.argmin(offsets)))
    if offsets[best] <= SAME:
        words = ", ".join(
            f"{key} {value:g}" if key != "normalization" else value for key, value in OPTIONS[best].items()
        )
        return verdict(f"same with {words}" if words else "same", "", theirs, difference)
    row = int(np.argmax(np.abs(theirs - mine)))
    detail = f"response {row + 1}: {theirs[row]:.4f}, here {mine[row]:.4f}"
    return verdict("differs", detail, theirs, difference)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every advantage of every batch")


def main(args: argparse.Namespace) -> int:
    with peers() as (found, absent):
        comparisons = [compare(method, golden, peer) for peer in found for golden in BATCHES for method in METHODS]
        versions = {peer.name: peer.version for peer in found}
    for line in lines(comparisons, versions, absent):
        print(clean(line))
    if args.json:
        content = {"versions": versions, "absent": absent, "comparisons": [asdict(item) for item in comparisons]}
        try:
            args.json.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"{args.json} cannot be written: {error.strerror}") from error
    return 0


def lines(comparisons: Sequence[Comparison], versions: dict[str, str], absent: dict[str, str]) -> list[str]:
    written = ["Golden batches"]
    rows: list[tuple[str, ...]]
    written += table(("batch", "shows"), [(golden.name, golden.shows) for golden in BATCHES], left=(0, 1))
    for name, version in versions.items():
        written += ["", f"{name} {version}, run here; difference to this project's default, advantages of size about 1"]
        rows = [
            (
                item.batch,
                item.method,
                "-" if item.difference is None else f"{item.difference:.1e}",
                item.verdict + (f" ({item.detail})" if item.detail else ""),
            )
            for item in comparisons
            if item.peer == name
        ]
        written += table(("batch", "method", "difference", "verdict"), rows, left=(0, 1, 3))
    if absent:
        written.append("")
        written += [f"{name}: {why}" for name, why in absent.items()]
    written += ["", "This project, and what is published about others that were not run here (- : nothing known)"]
    rest = {name: row for name, row in PUBLISHED.items() if name not in versions}
    rows = [(name, *(row.get(aspect, "-") for aspect in ASPECTS)) for name, row in rest.items()]
    written += table(("implementation", *ASPECTS), rows, left=tuple(range(len(ASPECTS) + 1)))
    return written

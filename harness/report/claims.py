"""The paper's claims as a reader sees them: verdict, numbers, reason, test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ORDER = ("holds", "fails", "insufficient", "not run", "not published")
VIEWS = {
    "published": "On the published runs",
    "paper": "On our runs at paper scale",
    "pocket": "On our pocket runs",
}
MEANINGS = {
    "published": "What the public record of runs itself supports; no run of ours is in it.",
    "paper": "The paper's models, data and settings, run by this harness.",
    "pocket": "A small model on generated text: it can support the mechanism, never the paper's numbers.",
}
OPEN = ("not run", "not published")


@dataclass(frozen=True)
class ClaimView:
    """``direction``: for an open verdict, whether the point estimates lie as claimed."""

    claim: str
    text: str
    verdict: str
    numbers: str
    reason: str
    direction: str
    quantity: str
    test: str
    run_ids: Sequence[str]
    setting: str


@dataclass(frozen=True)
class ClaimsView:
    """Claims that were judged, those that hold first; texts of the others with why; how many of each verdict."""

    view: str
    title: str
    meaning: str
    judged: Sequence[ClaimView]
    open: Sequence[tuple[str, str]]
    counts: Mapping[str, int]


def claims_views(rows: Sequence[Mapping[str, Any]]) -> list[ClaimsView]:
    """One for each view in which something was or could be judged; ``rows`` are those of verdicts.json."""
    found = []
    for view, title in VIEWS.items():
        part = sorted((row for row in rows if row["view"] == view), key=lambda row: _place(str(row["verdict"])))
        judged = [row for row in part if row["verdict"] not in OPEN]
        settings = Counter(row["claim"] for row in judged)
        known = set(settings)
        waiting = {row["text"]: f"{row['verdict']}: {row['reason']}" for row in part if row["claim"] not in known}
        shown = [_claim(row, several=settings[row["claim"]] > 1) for row in judged]
        counts = Counter(row["verdict"] for row in part)
        found.append(ClaimsView(view, title, MEANINGS[view], shown, list(waiting.items()), dict(counts)))
    return found


def _place(verdict: str) -> int:
    return ORDER.index(verdict) if verdict in ORDER else len(ORDER)


def _numbers(text: str, reason: str) -> str:
    """Nothing where the reason has the numbers already."""
    return "" if text.split(" (")[0] in reason else text


def _claim(row: Mapping[str, Any], *, several: bool) -> ClaimView:
    direction = ""
    if row["verdict"] == "insufficient" and row["agrees"] is not None:
        direction = "the estimates lie as claimed" if row["agrees"] else "the estimates do not lie as claimed"
    return ClaimView(
        claim=row["claim"],
        text=row["text"],
        verdict=row["verdict"],
        numbers=_numbers(row["numbers"] or "", row["reason"]),
        reason=row["reason"],
        direction=direction,
        quantity=row["quantity"],
        test="" if row["test"] == "none" else row["test"],
        run_ids=row["run_ids"] or (),
        setting=row["setting"] if several else "",
    )

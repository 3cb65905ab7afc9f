"""The paper's claims judged on the published runs, on ours at paper scale and on ours at pocket scale.

holds, fails, insufficient (n or spread too small to tell), not run (ours), not published (theirs). Every started run
enters; runs that the published tables leave out are part of the published evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pandas as pd

from harness.analysis.claim_tests import Evidence, Outcome, judge, shown
from harness.analysis.claims import Claim, Claims
from harness.analysis.frames import grouped
from harness.analysis.results import Results
from harness.analysis.samples import matching
from harness.analysis.selection import started

VIEWS: Final = ("published", "paper", "pocket")


@dataclass(frozen=True)
class Verdict:
    """One claim in one view (and setting, for ours). ``verdict`` is one of the five of this module."""

    claim: str
    text: str
    view: str
    setting: str
    quantity: str
    verdict: str
    outcome: Outcome


def verdicts(results: Results, claims: Claims) -> list[Verdict]:
    """One entry for each claim and view; several for a view of ours with several settings."""
    return [item for claim in claims.claims for view in VIEWS for item in _in_view(results, claims, claim, view)]


def verdict_table(results: Results, claims: Claims) -> pd.DataFrame:
    """:func:`verdicts` as a frame: claim, text, view, setting, quantity, verdict, agrees, reason, test, p, smallest_p,
    numbers, run_ids."""
    rows = []
    for item in verdicts(results, claims):
        shown = {key: getattr(item, key) for key in ("claim", "text", "view", "setting", "quantity", "verdict")}
        outcome = item.outcome
        rows.append(
            {
                **shown,
                "agrees": outcome.agrees,
                "reason": outcome.reason,
                "test": outcome.test,
                "p": outcome.p,
                "smallest_p": outcome.smallest_p,
                "numbers": "; ".join(_number(name, *found, item.quantity) for name, found in outcome.numbers.items()),
                "run_ids": outcome.run_ids,
            }
        )
    return pd.DataFrame(rows)


def _number(name: str, value: float, n: int, quantity: str) -> str:
    """``gdpo 19 (n = 5)``: over runs the median of a time, else the mean; ``printed`` where only a summary is known."""
    return f"{name} {shown(value, quantity)} ({f'n = {n}' if n else 'printed'})"


def _in_view(results: Results, claims: Claims, claim: Claim, view: str) -> Iterator[Verdict]:
    if view == "pocket" and not claim.pocket:
        return
    runs = _candidates(results, claim, view, dict(claim.where))
    then = None
    if "then" in claim.details:
        then = _candidates(results, claim, view, {**claim.where, **claim.details["then"]})
    quantity = claim.pocket_quantity if view == "pocket" and claim.pocket_quantity else claim.quantity
    for setting, part in _settings(claim, view, runs):
        outcome = judge(claim, _evidence(results, claims, claim, view, quantity, part, then, setting))
        verdict = outcome.verdict
        if verdict == "missing":
            verdict = "not published" if view == "published" else "not run"
        yield Verdict(claim.id, claim.text, view, setting, quantity, verdict, outcome)


def _candidates(results: Results, claim: Claim, view: str, where: dict[str, object]) -> pd.DataFrame:
    """Rows of the index, summaries included for the published view."""
    index = results.index
    if view == "published":
        return matching(index[index["source"] == "published"], where)
    where.pop("study", None)
    if view == "pocket":
        where.pop("model", None)
    ours = started(index[(index["source"] == "ours") & (index["scale"] == view)])
    return matching(ours, where)


def _settings(claim: Claim, view: str, runs: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Runs that may be compared with each other. A claim about two conditions takes the setting with most runs."""
    if view == "published" or runs.empty:
        return [("", runs)]
    column = "family_id" if claim.kind == "trend" else "setting_id"
    groups = [(str(name), part) for name, part in grouped(runs, column, sort=True)]
    if claim.kind == "largest_drop":
        return [max(groups, key=lambda group: len(group[1]))]
    return groups


def _evidence(
    results: Results,
    claims: Claims,
    claim: Claim,
    view: str,
    quantity: str,
    rows: pd.DataFrame,
    then: pd.DataFrame | None,
    setting: str,
) -> Evidence:
    second = None
    if then is not None and not then.empty:
        if view != "published":
            largest = then["setting_id"].value_counts().sort_index().idxmax()
            then = then[then["setting_id"] == largest]
        second = (then[then["kind"] == "run"], then[then["kind"] != "run"])
    return Evidence(
        results=results,
        runs=rows[rows["kind"] == "run"],
        summaries=rows[rows["kind"] != "run"],
        quantity=quantity,
        alpha=claims.alpha,
        tolerance=claims.tolerance(quantity),
        published=view == "published",
        key=(claim.id, view, setting),
        then=second,
        ours_method=claim.ours_method,
    )

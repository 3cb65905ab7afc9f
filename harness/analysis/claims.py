"""claims.yaml: the paper's claims as tests over results, read and checked. Nothing in it is evaluated as code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.analysis.quantities import parse
from harness.analysis.results import FILTERS
from harness.analysis.yaml_file import read_yaml
from harness.errors import UserError, nearest

SCHEMA: Final = 1
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "less": ("method", "against"),
    "greater": ("method", "against"),
    "not_below": ("method", "against", "margin"),
    "ordered": ("order",),
    "best": ("method", "among", "sense"),
    "wider": ("method", "against"),
    "trend": ("method", "direction"),
    "values": ("values", "statistic", "tolerance"),
    "alike": ("methods", "tolerance"),
    "largest_drop": ("method", "among", "then"),
}
"""Test kind -> the keys it needs beside id, text, kind, quantity and where."""
_COMMON: Final = ("id", "text", "kind", "quantity", "where")
_OPTIONAL: Final = ("pocket", "pocket_quantity", "ours_method")
_CHOICES: Final = {"sense": ("highest", "lowest"), "direction": ("rising", "falling"), "statistic": ("median", "mean")}


@dataclass(frozen=True)
class Claim:
    """``details``: the keys of its kind. ``pocket``: whether pocket runs can speak to it."""

    id: str
    text: str
    kind: str
    quantity: str
    where: Mapping[str, Any]
    details: Mapping[str, Any]
    pocket: bool = True
    pocket_quantity: str | None = None
    ours_method: str | None = None


@dataclass(frozen=True)
class Tolerance:
    """A difference to a published value of at most ``within`` counts as none, ``because`` of this."""

    within: float
    because: str


@dataclass(frozen=True)
class Claims:
    claims: tuple[Claim, ...]
    alpha: float
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)

    def tolerance(self, quantity: str) -> float | None:
        """That of the longest matching prefix; None when the file has none for ``quantity``."""
        found = self.stated(quantity)
        return None if found is None else found.within

    def stated(self, quantity: str) -> Tolerance | None:
        """:meth:`tolerance` with its reason."""
        matches = [prefix for prefix in self.tolerances if quantity.startswith(prefix)]
        return self.tolerances[max(matches, key=len)] if matches else None


def load_claims(path: str | Path) -> Claims:
    """Raises :class:`UserError` naming file, claim and key for anything that is not understood."""
    path = Path(path)
    content = read_yaml(path, "give --claims FILE")
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UserError(f"{path}: must begin with schema: {SCHEMA}")
    alpha, tolerances = content.get("alpha"), content.get("tolerances") or {}
    if not isinstance(alpha, float) or not 0 < alpha < 0.5:
        raise UserError(f"{path}: alpha: {alpha!r} must be a number between 0 and 0.5, e.g. 0.05")
    stated = {str(prefix): _tolerance(path, prefix, entry) for prefix, entry in tolerances.items()}
    found: dict[str, Claim] = {}
    for number, entry in enumerate(content.get("claims") or [], start=1):
        claim = _claim(path, number, entry)
        if claim.id in found:
            raise UserError(f"{path}: claim {claim.id} is there twice; give each an id of its own")
        found[claim.id] = claim
    return Claims(tuple(found.values()), alpha, stated)


def _tolerance(path: Path, prefix: str, entry: Any) -> Tolerance:
    where = f"{path}: tolerances: {prefix}"
    if not isinstance(entry, dict) or set(entry) != {"within", "because"}:
        raise UserError(f"{where}: must have the keys within, a number, and because, the reason for it")
    value, reason = entry["within"], str(entry["because"] or "").strip()
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise UserError(f"{where}: within: {value!r} must be a number, at least 0")
    if not reason:
        raise UserError(f"{where}: because is empty; write why it is {value:g}")
    return Tolerance(float(value), reason)


def _claim(path: Path, number: int, entry: Any) -> Claim:
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise UserError(f"{path}: claim {number} must be a mapping with an id")
    where = f"{path}: claim {entry['id']}"
    kind = entry.get("kind")
    if kind not in KINDS:
        raise UserError(f"{where}: kind: {kind!r} is no test; {nearest(str(kind), KINDS)}")
    needed = [*_COMMON, *KINDS[kind]]
    for key in needed:
        if entry.get(key) is None:
            raise UserError(f"{where}: {key} is missing (a test of kind {kind} needs {', '.join(needed)})")
    for key in entry:
        if key not in needed and key not in _OPTIONAL:
            raise UserError(f"{where}: {key} is no key of kind {kind}; {nearest(key, [*needed, *_OPTIONAL])}")
    for key, choices in _CHOICES.items():
        if key in KINDS[kind] and entry[key] not in choices:
            raise UserError(f"{where}: {key}: {entry[key]!r}; {nearest(str(entry[key]), choices)}")
    for filters in (entry["where"], entry.get("then", {})):
        for key in filters:
            if key not in FILTERS:
                raise UserError(f"{where}: where: {key} is no filter; {nearest(key, FILTERS)}")
    for quantity in (entry["quantity"], entry.get("pocket_quantity")):
        if quantity is not None:
            try:
                parse(quantity)
            except UserError as error:
                raise UserError(f"{where}: {error}") from error
    return Claim(
        id=entry["id"],
        text=str(entry["text"]),
        kind=kind,
        quantity=entry["quantity"],
        where=entry["where"],
        details={key: entry[key] for key in KINDS[kind]},
        pocket=bool(entry.get("pocket", True)),
        pocket_quantity=entry.get("pocket_quantity"),
        ours_method=entry.get("ours_method"),
    )

"""What a check before a run found: fine, worth knowing, or in the way; each with what to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """``subject`` in a word or two, ``text`` what was found, ``remedy`` what to do (empty for ``ok``)."""

    level: Level
    subject: str
    text: str
    remedy: str = ""


def problems(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.level == "problem"]


def render(findings: Sequence[Finding]) -> str:
    """One line a finding, remedies below their finding."""
    width = max((len(finding.subject) for finding in findings), default=0)
    lines = []
    for finding in findings:
        lines.append(f"{finding.level:<8} {finding.subject:<{width}}  {finding.text}")
        if finding.remedy:
            lines.append(f"{'':<8} {'':<{width}}  -> {finding.remedy}")
    return "\n".join(lines)

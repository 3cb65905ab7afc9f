"""The one exception a user may see: what is wrong, where, and the remedy, in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake the user can mend. Commands print its message after ``error:`` and exit with 2, no traceback."""


def nearest(name: str, valid: Iterable[str]) -> str:
    """Phrase for an unknown name: the closest valid one, then all of them.

    ``nearest("dara_asim", ["gdpo", "dara_asym"])`` -> ``"did you mean 'dara_asym'? valid: dara_asym, gdpo"``
    """
    names = sorted(set(valid))
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    return f"{hint}valid: {', '.join(names) if names else 'none'}"

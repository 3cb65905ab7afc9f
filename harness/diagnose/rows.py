"""All responses of a log as arrays, and which of them count where a step was run twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.diagnose.cells import Floats, Notes

DUPLICATES = ("auto", "last", "merge")


@dataclass
class Chunk:
    """n responses of one file, in its order. groups [n, 2]: digests. lines [n]: line (or row) in the file, from 1.
    lengths and logged: [n] or None. read: how many lines the chunk had, so that the next one knows where it starts."""

    steps: NDArray[np.int64]
    attempts: NDArray[np.int64]
    groups: NDArray[np.uint64]
    rewards: Floats
    lengths: Floats | None
    logged: Floats | None
    lines: NDArray[np.int64]
    notes: Notes
    read: int
    file: int = 0


@dataclass
class Rows:
    """N responses. files [N]: which file. attempts [N]: 0 where the log does not say. The rest as in :class:`Chunk`."""

    steps: NDArray[np.int64]
    attempts: NDArray[np.int64]
    groups: NDArray[np.uint64]
    rewards: Floats
    lengths: Floats | None
    logged: Floats | None
    lines: NDArray[np.int64]
    files: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.steps)

    def take(self, which: NDArray[np.bool_] | NDArray[np.intp]) -> Rows:
        return Rows(
            self.steps[which],
            self.attempts[which],
            self.groups[which],
            self.rewards[which],
            None if self.lengths is None else self.lengths[which],
            None if self.logged is None else self.logged[which],
            self.lines[which],
            self.files[which],
        )


def join(chunks: Sequence[Chunk]) -> Rows:
    """The chunks one after the other; an optional column that some chunks lack is NaN there."""

    def optional(name: str) -> Floats | None:
        parts = [getattr(chunk, name) for chunk in chunks]
        if all(part is None for part in parts):
            return None
        filled = [np.full(len(c.steps), np.nan) if p is None else p for c, p in zip(chunks, parts, strict=True)]
        return np.concatenate(filled)

    files = np.concatenate([np.full(len(chunk.steps), chunk.file, dtype=np.int32) for chunk in chunks])
    return Rows(
        np.concatenate([chunk.steps for chunk in chunks]),
        np.concatenate([chunk.attempts for chunk in chunks]),
        np.concatenate([chunk.groups for chunk in chunks]),
        np.concatenate([chunk.rewards for chunk in chunks]),
        optional("lengths"),
        optional("logged"),
        np.concatenate([chunk.lines for chunk in chunks]),
        files,
    )


def codes(groups: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Digests [n, 2] -> a number per distinct label [n]."""
    _, code = np.unique(groups[:, 0], return_inverse=True)
    seconds = np.zeros(code.max() + 1, dtype=np.uint64)
    seconds[code] = groups[:, 1]
    if (seconds[code] == groups[:, 1]).all():
        return np.asarray(code)
    _, code = np.unique(groups, axis=0, return_inverse=True)
    return np.asarray(code).reshape(-1)


def settle_attempts(rows: Rows, policy: str, has_attempts: bool) -> tuple[Rows, list[str]]:
    """Keep one attempt of each step, and say so.

    With an attempt column the highest attempt of a step counts. Without one, a step that comes back in a file after a
    later step was written again after a resume: its last block counts. That is not assumed where a block holds a single
    group (a table sorted by prompt). A step that several files hold is one batch split over them (said as well).
    policy: ``last`` also lets the last file win, ``merge`` takes everything, ``auto`` is as above."""
    told: list[str] = []
    if policy == "merge":
        return rows, told
    attempts = rows.attempts
    if has_attempts:
        why = "more than one attempt"
    elif policy == "last":
        attempts = rows.files.astype(np.int64) * (len(rows) + 1) + _returns(rows)
        why = "more than one block or file"
    else:
        attempts = _returns(rows)
        why = "a second block after later steps, as after a resume"
        if attempts.any() and not _blocks_are_batches(rows, attempts):
            told.append(
                "steps go back and forth in the file, one group at a time: read as one log in another order; "
                "if it holds two attempts, use --duplicates last"
            )
            attempts = np.zeros_like(attempts)
    steps, place = np.unique(rows.steps, return_inverse=True)
    last = np.full(len(steps), np.iinfo(np.int64).min)
    np.maximum.at(last, place, attempts)
    kept = attempts == last[place]
    if not kept.all():
        redone = np.unique(rows.steps[~kept])
        told.append(
            f"{span(redone)} {'has' if len(redone) == 1 else 'have'} {why}: the last one counts, "
            f"{int((~kept).sum()):,} earlier responses are left out"
        )
        rows = rows.take(kept)
    several = _steps_in_several_files(rows)
    if len(several) and policy == "auto":
        told.append(
            f"{span(several)} {'comes' if len(several) == 1 else 'come'} from more than one file: read as one batch "
            "split over them; if they are different runs, diagnose one at a time, if attempts, use --duplicates last"
        )
    return rows, told


def span(steps: NDArray[np.int64]) -> str:
    """``step 3``, ``steps 3, 5``, ``steps 3 to 90 (12 of them)``."""
    numbers = steps.tolist()
    if len(numbers) == 1:
        return f"step {numbers[0]}"
    if len(numbers) <= 4:
        return "steps " + ", ".join(map(str, numbers))
    return f"steps {numbers[0]} to {numbers[-1]} ({len(numbers)} of them)"


def _returns(rows: Rows) -> NDArray[np.int64]:
    """How often the step has gone back in the response's file before it [N]; 0 where no step is seen twice so."""
    back = np.zeros(len(rows), dtype=np.int64)
    back[1:] = (np.diff(rows.steps) < 0) & (np.diff(rows.files) == 0)
    if not back.any():
        return back
    block = np.cumsum(back)
    result = np.zeros(len(rows), dtype=np.int64)
    for file in np.unique(rows.files):
        inside = rows.files == file
        own = block[inside]
        if _several(rows.steps[inside], own).any():
            result[inside] = own - own[0]
    return result


def _blocks_are_batches(rows: Rows, attempts: NDArray[np.int64]) -> bool:
    """Whether each block of a step that is there twice has at least two groups."""
    step = _pair(rows.steps, rows.files.astype(np.int64))
    block = _pair(step, attempts)
    twice = _several(step, block)
    _, first, place = np.unique(block, return_index=True, return_inverse=True)
    pairs = np.unique(_pair(block, codes(rows.groups)), return_index=True)[1]
    group_count = np.bincount(place[pairs], minlength=len(first))
    return bool((group_count[twice[first]] >= 2).all())


def _steps_in_several_files(rows: Rows) -> NDArray[np.int64]:
    if not (rows.files != rows.files[0]).any():
        return np.empty(0, dtype=np.int64)
    return np.unique(rows.steps[_several(rows.steps, rows.files.astype(np.int64))])


def _pair(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number per distinct pair (a[n], b[n])."""
    first, second = np.unique(a, return_inverse=True)[1], np.unique(b, return_inverse=True)[1]
    return np.asarray(first * (int(second.max()) + 1) + second, dtype=np.int64)


def _several(key: NDArray[np.int64], part: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a key [n] occurs with more than one part."""
    place = np.unique(key, return_inverse=True)[1]
    pairs = np.unique(_pair(key, part), return_index=True)[1]
    return np.asarray(np.bincount(place[pairs], minlength=int(place.max()) + 1)[place] > 1)

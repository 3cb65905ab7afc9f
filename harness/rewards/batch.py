"""Scoring a batch: the one path by which every engine and every evaluation turns text into rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.rewards import length, maths, tool_calling
from harness.rewards.boxes import last_box

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class BatchScores:
    """``channels``: channel -> float64 [N], in the task's order. ``failures``: failure kind -> bool [N]."""

    channels: dict[str, Floats]
    failures: dict[str, Flags]


def score_batch(
    task: str,
    responses: Sequence[str],
    references: Sequence[str],
    lengths: Sequence[int] | None,
    *,
    length_limit: int | None,
    max_response_tokens: int | None = None,
) -> BatchScores:
    """Rewards of N responses against their N references.

    ``task``: ``tool_calling`` (channels correctness, format), ``tool_calling_three`` (and length) or ``maths``
    (correctness, length). ``lengths``: valid tokens per response, from the response mask; needed for maths.
    ``length_limit``: words of the think segment (tool_calling_three) or tokens (maths).

    Failure kinds: ``no_tool_call``, ``parse_error``, ``bad_reference`` (tool calling); ``no_box``, ``unclosed_box``
    (maths); and ``truncated`` (length has reached ``max_response_tokens``) when both are known.

    Never raises on model text. ValueError for a caller's mistake: unknown task, unequal lengths, a missing limit.
    An empty batch gives empty arrays.
    """
    if task not in _SCORERS:
        raise ValueError(f"unknown task {task!r}; valid: {', '.join(_SCORERS)}")
    count = len(responses)
    for name, values in (("references", references), ("lengths", lengths)):
        if values is not None and len(values) != count:
            raise ValueError(f"{count} responses but {len(values)} {name}")
    tokens = None if lengths is None else np.asarray(lengths, dtype=np.int64)
    scores = _SCORERS[task](responses, references, tokens, length_limit)
    if tokens is not None and max_response_tokens is not None:
        scores.failures["truncated"] = tokens >= max_response_tokens
    return scores


def rescue_batch(responses: Sequence[str], references: Sequence[str], strict: Floats) -> Floats:
    """[N] 1.0 where the strict score is 0 and the numerical fallback finds a match, else 0.0.

    ``strict + rescue_batch(...)`` is the primary accuracy of an evaluation; training never uses it.
    """
    rows = zip(responses, references, strict, strict=True)
    return np.array([0.0 if match else maths.fallback(response, reference) for response, reference, match in rows])


def _tool_calling(
    responses: Sequence[str], references: Sequence[str], _tokens: npt.NDArray[np.int64] | None, _limit: int | None
) -> BatchScores:
    count = len(responses)
    correctness, formats = np.zeros(count), np.zeros(count)
    failures = {kind: np.zeros(count, dtype=bool) for kind in ("no_tool_call", "parse_error", "bad_reference")}
    for row, (response, text) in enumerate(zip(responses, references, strict=True)):
        reference = tool_calling.parse_reference(text)
        scores = tool_calling.score_against(response, reference)
        correctness[row], formats[row] = scores.correctness, scores.format
        failures["no_tool_call"][row] = scores.no_tool_call
        failures["parse_error"][row] = scores.parse_error
        failures["bad_reference"][row] = reference.problem is not None
    return BatchScores({"correctness": correctness, "format": formats}, failures)


def _tool_calling_three(
    responses: Sequence[str], references: Sequence[str], tokens: npt.NDArray[np.int64] | None, limit: int | None
) -> BatchScores:
    if limit is None:
        raise ValueError("tool_calling_three needs length_limit, the words allowed in the think segment")
    scores = _tool_calling(responses, references, tokens, limit)
    words = [length.think_words_at_most(response, limit) for response in responses]
    scores.channels["length"] = np.array(words, dtype=np.float64)
    return scores


def _maths(
    responses: Sequence[str], references: Sequence[str], tokens: npt.NDArray[np.int64] | None, limit: int | None
) -> BatchScores:
    if tokens is None or limit is None:
        raise ValueError("maths needs lengths (valid tokens of each response) and length_limit")
    count = len(responses)
    correctness = np.zeros(count)
    failures = {kind: np.zeros(count, dtype=bool) for kind in ("no_box", "unclosed_box")}
    for row, (response, reference) in enumerate(zip(responses, references, strict=True)):
        box = last_box(response)
        if box.failure is not None:
            failures[box.failure][row] = True
        elif box.content is not None:
            correctness[row] = maths.same_answer(box.content, reference)
    return BatchScores({"correctness": correctness, "length": (tokens <= limit).astype(np.float64)}, failures)


_SCORERS: dict[str, Callable[..., BatchScores]] = {
    "tool_calling": _tool_calling,
    "tool_calling_three": _tool_calling_three,
    "maths": _maths,
}

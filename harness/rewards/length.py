"""Length rewards: 1.0 at or under a limit, else 0.0."""

from __future__ import annotations

from harness.rewards.transcript import assistant_text


def think_segment(response: str) -> str | None:
    """The text after the last ``<think>``, up to the first ``</think>`` behind it; None when either tag is absent."""
    text = assistant_text(response)
    if "</think>" not in text:
        return None
    start = text.rfind("<think>")
    if start < 0:
        return None
    start += len("<think>")
    end = text.find("</think>", start)
    return text[start:] if end < 0 else text[start:end]


def think_words(response: str) -> int | None:
    """Number of whitespace-delimited words in the think segment; None without one."""
    segment = think_segment(response)
    return None if segment is None else len(segment.split())


def think_words_at_most(response: str, n: int) -> float:
    """1.0 when the think segment holds at most ``n`` words (an empty one has 0), else 0.0; 0.0 without the tags."""
    segment = think_segment(response)
    if segment is None:
        return 0.0
    return 1.0 if len(segment.split(None, n)) <= n else 0.0

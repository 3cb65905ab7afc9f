"""What part of a decoded text is the assistant's answer.

Rewards see either the answer alone or the answer inside a ChatML transcript; both give the same score.
"""

from __future__ import annotations

ASSISTANT_START = "<|im_start|>assistant"
TURN_END = "<|im_end|>"


def assistant_text(response: str) -> str:
    """The text after the last assistant marker (all of it without one), up to the end of turn, stripped."""
    start = response.rfind(ASSISTANT_START)
    if start >= 0:
        response = response[start + len(ASSISTANT_START) :]
    end = response.find(TURN_END)
    if end >= 0:
        response = response[:end]
    return response.strip()


def first_block(text: str, opening: str, closing: str) -> str:
    """What follows the first ``opening``, up to the next ``opening`` or ``closing`` (to the end without one)."""
    _, _, rest = text.partition(opening)
    return rest.partition(opening)[0].partition(closing)[0]

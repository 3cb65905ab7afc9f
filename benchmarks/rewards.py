"""How fast rewards are: training batches, evaluation batches and 10 MB hostile outputs.

python benchmarks/rewards.py [--hostile-megabytes 10]

One core: the figures are seconds of processor time, the better of two measurements, so that a busy machine does not
spoil them; wall-clock time stands behind. Each figure stands beside its target; none fails.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "hostile"))

from hostile_corpus import REFERENCE, corpus

from harness.rewards import length, maths, tool_calling
from harness.rewards.batch import score_batch

CHARACTERS_PER_TOKEN = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hostile-megabytes", type=int, default=10)
    arguments = parser.parse_args()
    report("2,048 tool-calling responses of 300 tokens", tool_calling_batch(), 0.5)
    report("25,000 maths responses of 4,000 tokens", maths_batch(), 20.0)
    slowest(arguments.hostile_megabytes * 1_000_000)


def report(what: str, taken: tuple[float, float], target: float) -> None:
    seconds, wall = taken
    print(
        f"{what}: {seconds:.3f} s (target <= {target:g} s, {seconds / target:.0%} of it; {wall:.3f} s by the clock)",
        flush=True,
    )


def seconds_of(call: Callable[[], object]) -> tuple[float, float]:
    """(processor seconds, wall-clock seconds), the better of two measurements."""
    measured = []
    for _ in range(2):
        start, wall = time.process_time(), time.perf_counter()
        call()
        measured.append((time.process_time() - start, time.perf_counter() - wall))
    return min(measured)


def tool_calling_batch() -> tuple[float, float]:
    rng = random.Random(0)
    responses, references = [], []
    for _prompt in range(512):
        wanted = [_call(rng) for _ in range(rng.randint(1, 4))]
        references += [_answer(5, wanted)] * 4
        for _ in range(4):
            given = [call if rng.random() < 0.6 else _call(rng) for call in wanted]
            text = _answer(10, given)
            responses.append(_answer(max(1, (300 * CHARACTERS_PER_TOKEN - len(text)) // 5), given))

    def score() -> None:
        tool_calling.parse_reference.cache_clear()
        score_batch("tool_calling_three", responses, references, None, length_limit=16)

    return seconds_of(score)


def _call(rng: random.Random) -> str:
    parameters = ", ".join(f'"p{index}": "value {rng.randint(0, 5)}"' for index in range(rng.randint(0, 4)))
    return f'{{"name": "tool_{rng.randint(0, 3)}", "parameters": {{{parameters}}}}}'


def _answer(words: int, calls: list[str]) -> str:
    return "<think> " + "word " * words + "</think>\n<tool_call>\n" + "\n".join(calls) + "\n</tool_call>"


def maths_batch() -> tuple[float, float]:
    rng = random.Random(0)
    sentence = "Then $\\frac{x}{2} = \\sqrt{y + 3}$ holds, hence we look at the next case. "
    body = sentence * (4000 * CHARACTERS_PER_TOKEN // len(sentence))
    endings = ["so $\\boxed{\\frac{1}{2}}$.", "so \\boxed{\\dfrac12}", "and then \\boxed{3", "I do not know."]
    responses = [f"{index} {body}{rng.choice(endings)}" for index in range(25_000)]
    references = ["\\frac{1}{2}"] * len(responses)
    lengths = [4000] * len(responses)
    return seconds_of(lambda: score_batch("maths", responses, references, lengths, length_limit=4000))


def slowest(size: int) -> None:
    times = []
    for name, text in corpus(size):
        times += [
            (seconds_of(lambda text=text: tool_calling.score(text, REFERENCE)), "tool calling", name),
            (seconds_of(lambda text=text: length.think_words_at_most(text, 16)), "think length", name),
            (seconds_of(lambda text=text: maths.strict(text, "204")), "strict", name),
            (seconds_of(lambda text=text: maths.fallback(text, "204")), "fallback", name),
        ]
    times.sort(reverse=True)
    print(f"{len(times)} scores of hostile outputs of {size:,} characters; the slowest:")
    for taken, grader, name in times[:8]:
        report(f"  {grader}: {name}", taken, 1.0)


if __name__ == "__main__":
    main()

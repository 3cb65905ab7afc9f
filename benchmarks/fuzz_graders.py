"""Look for a text that crashes, stalls or confuses a grader.

python benchmarks/fuzz_graders.py [--minutes 10] [--grader NAME] [--seed 0] [--findings FOLDER] [--coverage]

Texts are put together from the pieces that the graders look for, mutated, repeated and spliced, from a few characters
to a megabyte. Checked for each: no exception, values in bounds, the same value twice, and time (a check, which scores
several times, may take 0.05 s + 0.2 s per million characters). Where verl is installed its graders must agree. A text
that fails is written to the findings and the exit code is 1. With --coverage the inputs are guided by atheris, where
that is installed.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.rewards import answer_form, boxes, length, maths, numerals, tool_calling, transcript
from harness.rewards.batch import score_batch
from harness.rewards.boxes import last_box
from harness.rewards.numerals import exact_number
from harness.rewards.transcript import assistant_text
from harness.tasks.references import reference_text

SECONDS = 0.05
SECONDS_PER_CHARACTER = 2e-7
SHORT = 20_000

CALLS = [
    '{"name": "f", "parameters": {"a": 1}}',
    '{"name": "f", "parameters": {"a": 2, "b": [1, {"c": null}]}}',
    '{"name": "g", "parameters": {}}',
    '{"name": "f"}',
    '{"name": ["f"], "parameters": {}}',
    '{"name": "f", "parameters": [1]}',
    '{"name": "f", "parameters": {"a": true}}',
    '{"name": "f", "parameters": {"a": NaN}}',
    '{"name": "f", "parameters": {"a": 1e999, "a": 1.0}}',
    "null",
    "9" * 5000,
]
TAGS = [
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>", "<|im_end|>"),
    *("<|im_start|>assistant", "<think", "<THINK>", "<think> x </think>\n<tool_call>\n", "\n</tool_call>"),
    *("</think>\n<response>", "\n</tool_call>\n<response>"),
]
LATEX = [
    *("\\boxed{", "\\boxed ", "\\boxed", "\\fbox{", "{", "}", "\\frac", "\\dfrac", "\\tfrac", "\\sqrt", "\\text{ "),
    *("\\left", "\\right", "^\\circ", "^{\\circ}", "\\$", "$", "\\%", "\\\\%", "%", "\\\\", "\\!", "=", "k =", "/"),
    *("\\mathrm{", "\\text{cm}", "\\times 10^{", "10^", "e5", "{,}", "\\,", "\\quad", "°", "cm", " m", "^2", "\\cdot"),
]
COMMON = [
    *("\n", "\r\n", " ", "\t", "\0", "\u2028", "\ud800", "\udfff", "\u0301", "\U0001f600", "\ufeff", "１", "\\", '"'),
    *("0", "1", "5", "12", ".", ",", "-", "+", "−", "[", "]", "{", "}", ":", "'", "x", "e", "E", "__import__('os')"),
]
PIECES = [*CALLS, *TAGS, *LATEX, *COMMON]
REFERENCES = [
    *(f"<think> t </think>\n<tool_call>\n{call}\n</tool_call>" for call in CALLS[:3]),
    f"<think> t </think>\n<tool_call>\n{CALLS[0]}\n{CALLS[0]}\n{CALLS[2]}\n</tool_call>\n<response> r </response>",
    "<think> t </think>\n<response> r </response>",
    "<think> t </think>",
    *("5", "\\frac{1}{2}", "-0.5", "1,000", "7.02 \\times 10^{5}", "(1,2)", "\\sqrt{3}", "", "\\text{ a}\\text{ b}"),
]


class Finding(Exception):
    """What was wrong with a text."""


def check_tool_calling(text: str, reference: str) -> None:
    scores = tool_calling.score(text, reference)
    if scores != tool_calling.score(text, reference):
        raise Finding("not the same twice")
    if scores["format"] not in (0.0, 1.0) or not -3.0 <= scores["correctness"] <= 3.0:
        raise Finding(f"out of bounds: {scores}")
    verl = _verl("rlla")
    if verl is None or len(text) > SHORT or tool_calling.reference_problem(reference):
        return
    message = [[{"content": assistant_text(text)}]]
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = {
            "format": verl.customize_format_reward_func(message, [reference], 0, 1, 0, False)[0],
            "correctness": verl.customize_correctness_reward_tool(message, [reference], 0, 3, -3, False)[0],
        }
    if scores != theirs:
        raise Finding(f"{scores}, verl says {theirs}")


def check_length(text: str, reference: str) -> None:
    words = length.think_words(text)
    for limit in (0, 1, 16):
        if length.think_words_at_most(text, limit) != float(words is not None and words <= limit):
            raise Finding(f"{words} words against the limit {limit}")


def check_strict(text: str, reference: str) -> None:
    value = maths.strict(text, reference)
    if value not in (0.0, 1.0) or value != maths.strict(text, reference):
        raise Finding(f"value {value}")
    box = last_box(text)
    if (box.content is None) == (box.failure is None):
        raise Finding(f"box {box}")
    verl = _verl("math_reward")
    if verl is None or len(text) > SHORT:
        return
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = verl.compute_score(text, reference)
    if value != theirs:
        raise Finding(f"{value}, verl says {theirs}")


def check_fallback(text: str, reference: str) -> None:
    if maths.primary(text, reference) < maths.strict(text, reference):
        raise Finding("the fallback took a match away")
    number = exact_number(text)
    if number is not None and (len(text) > 1000 or number.digits.strip("0") != number.digits):
        raise Finding(f"{number}")
    box = last_box(text).content
    if number is not None and box is None and maths.fallback(f"\\boxed{{{text}}}", text) not in (0.0, 1.0):
        raise Finding("a number that is not its own")
    reference_text(text)


def check_batch(text: str, reference: str) -> None:
    for task in ("tool_calling_three", "maths"):
        scores = score_batch(task, [text, ""], [reference, reference], [9, 0], length_limit=8, max_response_tokens=9)
        if any(values.shape != (2,) for values in [*scores.channels.values(), *scores.failures.values()]):
            raise Finding("a shape")


GRADERS: dict[str, Callable[[str, str], None]] = {
    "tool_calling": check_tool_calling,
    "length": check_length,
    "strict": check_strict,
    "fallback": check_fallback,
    "batch": check_batch,
}

_VERL: dict[str, object] = {}


def _verl(module: str):
    if module not in _VERL:
        try:
            _VERL[module] = __import__(f"verl.utils.reward_score.{module}", fromlist=[module])
        except ImportError:
            _VERL[module] = None
    return _VERL[module]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="for each grader")
    parser.add_argument("--grader", choices=sorted(GRADERS), action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=Path, default=Path("fuzz_findings"))
    parser.add_argument("--coverage", action="store_true", help="guided by atheris; one grader only")
    arguments = parser.parse_args()
    names = arguments.grader or sorted(GRADERS)
    if arguments.coverage:
        return guided(names[0], arguments.minutes)
    return max(fuzz(name, arguments.minutes * 60, arguments.seed, arguments.findings) for name in names)


def fuzz(name: str, seconds: float, seed: int, findings: Path) -> int:
    """Fuzz one grader for so many seconds; 1 when something was found."""
    rng = random.Random(f"{name} {seed}")
    pool = list(REFERENCES)
    start, count, characters, slowest, found = time.monotonic(), 0, 0, (0.0, 0), 0
    while time.monotonic() - start < seconds:
        text, reference = make_text(rng, pool), rng.choice(REFERENCES)
        if rng.random() < 0.1:
            reference = text if len(text) < SHORT else reference
        taken, problem = attempt(GRADERS[name], text, reference)
        if problem is not None:
            found += 1
            findings.mkdir(parents=True, exist_ok=True)
            path = findings / f"{name}_{found}.txt"
            path.write_text(repr((text[:100_000], reference[:100_000], problem)), encoding="utf-8")
            print(f"{name}: {problem}: {path}", flush=True)
        slowest = max(slowest, (taken, len(text)))
        count, characters = count + 1, characters + len(text)
        if len(text) < SHORT and rng.random() < 0.05:
            pool.append(text)
            if len(pool) > 500:
                pool.pop(rng.randrange(len(REFERENCES), len(pool)))
    print(
        f"{name}: {count:,} texts, {characters / 1e6:,.0f} million characters in {seconds / 60:.1f} min; "
        f"{found} found; slowest {slowest[0] * 1000:.1f} ms for {slowest[1]:,} characters; "
        f"compared with verl: {'yes' if name in ('strict', 'tool_calling') and _verl('rlla') else 'no'}",
        flush=True,
    )
    return 1 if found else 0


def attempt(check: Callable[[str, str], None], text: str, reference: str) -> tuple[float, str | None]:
    """(seconds, what is wrong or None). A slow one is measured again twice, for the machine may have been busy."""
    allowed = SECONDS + SECONDS_PER_CHARACTER * (len(text) + len(reference))
    taken = float("inf")
    for _ in range(3):
        start = time.process_time()
        try:
            check(text, reference)
        except Finding as finding:
            return 0.0, str(finding)
        except Exception as error:
            return 0.0, f"raised {type(error).__name__}: {str(error)[:200]}"
        taken = min(taken, time.process_time() - start)
        if taken <= allowed:
            return taken, None
    return taken, f"took {taken:.2f} s for {len(text):,} characters"


def make_text(rng: random.Random, pool: list[str]) -> str:
    """A new text: pieces put together, or an old one mutated; sometimes repeated up to a megabyte."""
    if rng.random() < 0.5:
        text = "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 16)))
    else:
        text = rng.choice(pool)
    for _ in range(rng.randrange(6)):
        text = mutate(rng, text, pool)
    if rng.random() < 0.02:
        start = rng.randrange(len(text) + 1)
        piece = text[start : start + rng.randrange(1, 40)] or "{"
        times = 10 ** rng.randrange(2, 7) // len(piece)
        text = text[:start] + piece * times + text[start:]
    if rng.random() < 0.3:
        text = rng.choice(["\\boxed{%s}", "\\boxed %s$", "$\\boxed{%s}$ and", "%s\\boxed{"]).replace("%s", text)
    return text


def mutate(rng: random.Random, text: str, pool: list[str]) -> str:
    start = rng.randrange(len(text) + 1)
    end = min(len(text), start + rng.randrange(1, 12))
    choice = rng.randrange(5)
    if choice == 0:
        return text[:start] + text[end:]
    if choice == 1:
        return text[:start] + rng.choice(PIECES) + text[start:]
    if choice == 2:
        return text[:start] + text[start:end] * rng.randrange(2, 5) + text[end:]
    if choice == 3:
        return (
            text[:start]
            + chr(rng.choice([rng.randrange(128), rng.randrange(0x3000), rng.randrange(0x110000)]))
            + text[end:]
        )
    other = rng.choice(pool)
    return text[:start] + other[rng.randrange(len(other) + 1) :]


def guided(name: str, minutes: float) -> int:
    """The same checks on inputs that atheris steers towards new branches."""
    import atheris

    for module in (answer_form, boxes, length, maths, numerals, tool_calling, transcript):
        for item in vars(module).values():
            if inspect.isfunction(item) and item.__module__ == module.__name__:
                atheris.instrument_func(item)
    check = GRADERS[name]

    def one(content: bytes) -> None:
        provider = atheris.FuzzedDataProvider(content)
        reference = REFERENCES[provider.ConsumeIntInRange(0, len(REFERENCES) - 1)]
        pieces = []
        while provider.remaining_bytes() and len(pieces) < 200:
            if provider.ConsumeBool():
                pieces.append(PIECES[provider.ConsumeIntInRange(0, len(PIECES) - 1)])
            else:
                pieces.append(provider.ConsumeUnicode(6))
        _, problem = attempt(check, "".join(pieces), reference)
        if problem is not None:
            raise Finding(f"{problem}: {''.join(pieces)!r} against {reference!r}")

    atheris.Setup([sys.argv[0], f"-max_total_time={int(minutes * 60)}", "-max_len=2000"], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())

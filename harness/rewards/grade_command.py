"""Score responses from a file: `grade --task maths|tool_calling FILE.jsonl [--output FILE]`.

Each line of FILE is a JSON object with the texts `response` and `reference` and, for maths, the number of `tokens` of
the response. Other names of these keys: output, solution_str, completion; ground_truth, gts, answer; response_tokens,
length. Every line is written again to the output with its scores added:

maths          strict, fallback (a numerical rescue of a strict 0), primary (either), length (tokens at most the limit)
tool_calling   format, correctness, length (words of the think segment at most the limit), think_words

together with `failures`, the kinds that occurred. Means are printed. A line that can't be read is an error naming it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from harness.errors import UserError
from harness.rewards import length
from harness.rewards.batch import rescue_batch, score_batch

_KEYS = {
    "response": ("response", "output", "solution_str", "completion"),
    "reference": ("reference", "ground_truth", "gts", "answer"),
    "tokens": ("tokens", "response_tokens", "length"),
}
_PAPER_LIMITS = {"maths": 4000, "tool_calling": 16}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE.jsonl")
    parser.add_argument("--task", required=True, choices=sorted(_PAPER_LIMITS))
    parser.add_argument("--output", type=Path, help="default: FILE.graded.jsonl beside FILE")
    parser.add_argument(
        "--length-limit",
        type=int,
        help="tokens of a maths response (default 4000) or words of a think segment (default 16)",
    )


def main(args: argparse.Namespace) -> int:
    output = args.output or args.file.with_suffix(".graded.jsonl")
    if output.absolute() == args.file.absolute():
        raise UserError(f"--output {output} is the input; choose another file")
    limit = _PAPER_LIMITS[args.task] if args.length_limit is None else args.length_limit
    if limit < 0:
        raise UserError(f"--length-limit {limit} must not be negative")
    grade = _grade_maths if args.task == "maths" else _grade_tool_calling
    try:
        with open(args.file, encoding="utf-8", errors="surrogatepass") as source:
            totals, count = _grade_all(source, args.file, output, grade, limit)
    except OSError as error:
        raise UserError(f"{error.filename or args.file}: {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{args.file} is no UTF-8 text ({error.reason}); convert it first") from error
    if not count:
        raise UserError(f"{args.file} has no lines to grade")
    print(f"{count:,} responses graded, written to {output}")
    for name, (total, graded) in totals.items():
        mean = f"{total / graded:.4f}" if graded else "not known"
        print(f"  {name:<14} {mean}" + (f"  (of {graded:,})" if graded != count else ""))
    return 0


def _grade_all(
    source: TextIO, name: Path, output: Path, grade: Callable[..., dict[str, Any]], limit: int
) -> tuple[dict[str, list[float]], int]:
    """Grade line by line; (per score: total and count, number of rows). ``output`` appears when it is whole."""
    totals: dict[str, list[float]] = {}
    count = 0
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as target:
            for number, row in _rows(source, name):
                response, reference = (_text(row, key, name, number) for key in ("response", "reference"))
                scores = grade(response, reference, _tokens(row, name, number), limit)
                failures = scores.pop("failures")
                for key, value in {**scores, **{f"failure/{kind}": flag for kind, flag in failures.items()}}.items():
                    total = totals.setdefault(key, [0.0, 0])
                    if value is not None:
                        total[0] += value
                        total[1] += 1
                kinds = [kind for kind, flag in failures.items() if flag]
                target.write(json.dumps({**row, "scores": scores, "failures": kinds}) + "\n")
                count += 1
        if count:
            part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    return totals, count


def _grade_maths(response: str, reference: str, tokens: int | None, limit: int) -> dict[str, Any]:
    scores = score_batch("maths", [response], [reference], [tokens or 0], length_limit=limit)
    strict = float(scores.channels["correctness"][0])
    fallback = float(rescue_batch([response], [reference], scores.channels["correctness"])[0])
    return {
        "strict": strict,
        "fallback": fallback,
        "primary": strict + fallback,
        "length": None if tokens is None else float(scores.channels["length"][0]),
        "failures": {kind: bool(flags[0]) for kind, flags in scores.failures.items()},
    }


def _grade_tool_calling(response: str, reference: str, tokens: int | None, limit: int) -> dict[str, Any]:
    scores = score_batch("tool_calling_three", [response], [reference], None, length_limit=limit)
    return {
        **{name: float(scores.channels[name][0]) for name in ("format", "correctness", "length")},
        "think_words": length.think_words(response),
        "failures": {kind: bool(flags[0]) for kind, flags in scores.failures.items()},
    }


def _rows(source: TextIO, name: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(source, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{name}, line {number} is no JSON ({type(error).__name__}); mend or remove it") from error
        if not isinstance(row, dict):
            raise UserError(f"{name}, line {number} is no JSON object; each line needs a response and a reference")
        yield number, row


def _text(row: dict[str, Any], what: str, name: Path, number: int) -> str:
    value = next((row[key] for key in _KEYS[what] if key in row), None)
    if not isinstance(value, str):
        raise UserError(f"{name}, line {number} has no text under {', '.join(_KEYS[what])}; add the {what}")
    return value


def _tokens(row: dict[str, Any], name: Path, number: int) -> int | None:
    value = next((row[key] for key in _KEYS["tokens"] if key in row), None)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise UserError(f"{name}, line {number}: {value!r} is no number of tokens; give a whole number")
    return value

"""Outputs made to crash, stall or cheat a grader: ``corpus(size)`` makes the long ones about ``size`` long."""

from __future__ import annotations

from collections.abc import Iterator

CALL = '{"name": "f", "parameters": {"a": 1}}'
REFERENCE = f"<think> t </think>\n<tool_call>\n{CALL}\n</tool_call>"


def in_call(block: str) -> str:
    return f"<think> t </think>\n<tool_call>\n{block}\n</tool_call>"


def _repeat(unit: str, size: int) -> str:
    return unit * (size // len(unit))


def corpus(size: int) -> Iterator[tuple[str, str]]:
    """(name, text) pairs."""
    for name, unit in {
        "one letter": "a",
        "blanks": " ",
        "line breaks": "\n",
        "CRLF": "\r\n",
        "NUL": "\0",
        "quotes": '"',
        "backslashes": "\\",
        "digits": "9",
        "opening braces": "{",
        "closing braces": "}",
        "brace pairs": "{}",
        "opening brackets": "[",
        "lone surrogates": "\ud800",
        "combining marks": "\u0301",
        "bidi controls": "\u202e",
        "four-byte letters": "\U0001f600",
        "words": "ab ",
        "two-letter words": "\u00e9\u00e8 ",
        "think tags": "<think>",
        "think pairs": "<think></think>",
        "closing think": "</think>\n",
        "tool tags": "<tool_call>",
        "closing tool": "</tool_call>",
        "tool blocks": "<tool_call>\n{}\n</tool_call>\n",
        "response blocks": "</think>\n<response></response>",
        "tag halves": "<think",
        "boxes": "\\boxed{",
        "closed boxes": "\\boxed{1}",
        "spaced boxes": "\\boxed 1$",
        "bare boxes": "\\boxed",
        "fboxes": "\\fbox{",
        "assistant markers": "<|im_start|>assistant",
        "turn ends": "<|im_end|>",
    }.items():
        yield name, _repeat(unit, size)
    for name, unit in {
        "brace pairs": "{}",
        "nested braces": "{",
        "fractions": "\\frac12",
        "bare fractions": "\\frac",
        "roots": "\\sqrt2",
        "bare roots": "\\sqrt",
        "slashes": "1/",
        "equals": "=",
        "units": "\\text{ cm}",
        "unit macros": "\\mathrm{m}",
        "open macros": "\\mathrm{",
        "digits": "7",
        "thousands": "1,000",
        "points": ".",
        "blanks": " ",
        "escapes": "\\\\",
        "powers": "^{",
        "dollars": "$",
    }.items():
        inside = _repeat(unit, size)
        yield f"box of {name}", "\\boxed{" + inside + "}"
        yield f"unclosed box of {name}", "\\boxed{" + inside
        yield f"spaced box of {name}", "\\boxed " + inside
    yield "deep closed box", "\\boxed{" + "{" * 100_000 + "1" + "}" * 100_000 + "}"
    yield "box bomb", "\\boxed{" + "{" * (size // 2) + "}" * (size // 2) + "}"
    for name, block in {
        "letters": _repeat("a", size),
        "digits": _repeat("9", size),
        "huge integer": '{"name": "f", "parameters": {"a": ' + "9" * size + "}}",
        "huge real": '{"name": "f", "parameters": {"a": 0.' + "1" * size + "}}",
        "huge exponent": '{"name": "f", "parameters": {"a": 1e' + "9" * size + "}}",
        "negative exponent": '{"name": "f", "parameters": {"a": 1e-' + "9" * size + "}}",
        "nested arrays": "[" * size,
        "closed arrays": "[" * (size // 2) + "]" * (size // 2),
        "nested objects": _repeat('{"a":', size),
        "nested parameters": '{"name": "f", "parameters": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
        "just under the recursion limit": '{"name": "f", "parameters": ' + '{"a":' * 900 + "1" + "}" * 900 + "}",
        "wide array": '{"name": "f", "parameters": {"a": [' + _repeat("1,", size) + "1]}}",
        "wide object": '{"name": "f", "parameters": {' + ",".join(f'"{index}":1' for index in range(size // 10)) + "}}",
        "same key": '{"name": "f", "parameters": {' + _repeat('"a":1,', size) + '"a":1}}',
        "many empty objects": _repeat("{}\n", size) + CALL,
        "many calls": _repeat(CALL + "\n", size) + CALL,
        "many small calls": _repeat('{"name":1}\n', size) + CALL,
        "many names": "\n".join(f'{{"name": "f{index}"}}' for index in range(size // 20)),
        "long string": '{"name": "' + _repeat("\\u0061", size) + '", "parameters": {}}',
        "escaped quotes": '{"name": "' + _repeat('\\"', size) + '", "parameters": {}}',
        "unclosed string": '{"name": "' + _repeat("a", size),
        "surrogate escapes": '{"name": "f", "parameters": {"a": "\\ud800"}}',
        "control characters": '{"name": "f\x01", "parameters": {}}',
        "NaN": '{"name": "f", "parameters": {"a": NaN}}',
        "Infinity": '{"name": "f", "parameters": {"a": -Infinity}}',
        "byte order mark": "\ufeff" + CALL,
        "unhashable name": '{"name": {"a": 1}, "parameters": {}}',
        "false name": '{"name": false, "parameters": {}}',
        "parameters as text": '{"name": "f", "parameters": "a"}',
        "parameters as list": '{"name": "f", "parameters": [["a", 1]]}',
        "code": '__import__("os").system("echo no")',
        "code in a value": '{"name": "f", "parameters": {"a": "__import__(\'os\')"}}',
        "tags in a string": '{"name": "f", "parameters": {"a": "</tool_call><tool_call>"}}',
        "class": '{"name": "f", "parameters": {"__class__": "x", "a": 1}}',
        "yaml": "!!python/object/apply:os.system ['true']",
        "blanks between": CALL + _repeat("\n ", size) + CALL,
    }.items():
        yield f"call of {name}", in_call(block)
    yield "look-alike tags", "<think\u200b> t </think>\n<tool\u2010call>\n" + CALL + "\n</tool_call>"
    yield "wide tags", "\uff1cthink\uff1e t \uff1c/think\uff1e"
    yield "tag in think", "<think> <tool_call> </think>\n" + in_call(CALL)
    yield "long think", "<think> " + _repeat("w ", size) + "</think>\n<tool_call>\n" + CALL + "\n</tool_call>"
    yield "format string", "{0.__class__} %s %n $(id) `id` ; rm -rf /"
    yield "empty", ""

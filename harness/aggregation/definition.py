"""What an aggregation method is: a function from a batch to one score per response, and what is known about it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.aggregation.density import Bools, Floats

SECTIONS = ("Formula", "Assumes", "Degenerate", "Parameters", "Source", "Certainty")
"""The headings a built-in method's docstring has, each at the start of a line and followed by a colon."""


@dataclass(frozen=True)
class Scores:
    """A method's answer, for methods that have more to say than ``scores``. Rows as in the batch.

    scores [N]: S, before the final normalisation.
    advantages [N, K]: the channel advantages it used (None: the standard ones are reported).
    weights [K]: the multiplier of each channel (None: 1). cap_hit [K]: where a cap cut it (None: nowhere).
    kept [N]: the responses that enter the final normalisation, all others get 0 (None: all).
    scale [N]: multiplies the normalised result (None: 1).
    """

    scores: Floats
    advantages: Floats | None = None
    weights: Floats | None = None
    cap_hit: Bools | None = None
    kept: Bools | None = None
    scale: Floats | None = None


@dataclass(frozen=True)
class Method:
    """A named method. ``parameters`` are the defaults of the function's keyword parameters, from its signature."""

    name: str
    function: Callable[..., Any]
    parameters: dict[str, Any]
    doc: str
    final_normalization: bool
    arxiv: str | None

    def __call__(self, batch: Any, **parameters: Any) -> Any:
        return self.function(batch, **parameters)

    @property
    def sections(self) -> dict[str, str]:
        """The docstring by heading; the text before the first heading is under ``Summary``."""
        found: dict[str, list[str]] = {"Summary": []}
        heading = "Summary"
        for line in self.doc.splitlines():
            word, colon, rest = line.partition(":")
            if colon and word in SECTIONS:
                heading, line = word, rest.strip()
                found[heading] = []
            found[heading].append(line)
        return {name: "\n".join(lines).strip() for name, lines in found.items()}


def method(
    *, final_normalization: bool = True, arxiv: str | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Method]:
    """Decorator: make a function ``(batch, *, parameter=default, ...)`` a :class:`Method`."""

    def wrap(function: Callable[..., Any]) -> Method:
        return describe(function, final_normalization=final_normalization, arxiv=arxiv, name=name)

    return wrap


def describe(
    function: Callable[..., Any], *, final_normalization: bool = True, arxiv: str | None = None, name: str | None = None
) -> Method:
    """The :class:`Method` of a function; ValueError unless it takes a batch and keyword parameters with defaults."""
    label = name or str(getattr(function, "__name__", "method"))
    found = list(inspect.signature(function).parameters.values())
    if not found or found[0].kind not in (found[0].POSITIONAL_ONLY, found[0].POSITIONAL_OR_KEYWORD):
        raise ValueError(f"method {label!r} takes no batch: write def {label}(batch, *, parameter=default, ...)")
    parameters: dict[str, Any] = {}
    for parameter in found[1:]:
        if parameter.kind is not parameter.KEYWORD_ONLY or parameter.default is parameter.empty:
            raise ValueError(
                f"parameter {parameter.name!r} of method {label!r} must come after * and have a default, "
                f"as in def {label}(batch, *, {parameter.name}=1.0)"
            )
        default = parameter.default
        parameters[parameter.name] = dict(default) if isinstance(default, Mapping) else default
    return Method(label, function, parameters, inspect.getdoc(function) or "", final_normalization, arxiv)

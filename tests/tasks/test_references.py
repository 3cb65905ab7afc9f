from __future__ import annotations

import numpy as np
import pytest

from harness.tasks.references import reference_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (142.0, "142"),
        (np.float64(3.0), "3"),
        (-2.0, "-2"),
        (0.5, "0.5"),
        (1e15, "1000000000000000"),
        (7, "7"),
        (np.int64(7), "7"),
        ("142.0", "142.0"),
        ("023", "023"),
        ("9.6\n", "9.6"),
        (["2", "3"], "2"),
        (np.array(["$5$"], dtype=object), "5"),
        ([[4.0]], "4"),
        ("$x$", "x"),
        ("$$x$$", "x"),
        ("\\( x \\)", "x"),
        ("\\[x\\]", "x"),
        ("$x$ and $y$", "$x$ and $y$"),
        ("$69$,$84$", "$69$,$84$"),
        ("$5", "$5"),
        ("$5\\$", "$5\\$"),
        ("$", "$"),
        ("$$", ""),
        ("", ""),
        ("\\$5", "\\$5"),
    ],
)
def test_the_text_that_graders_compare(value, text):
    assert reference_text(value) == text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [], None, True, {"a": 1}, b"5"])
def test_what_is_no_answer(value):
    with pytest.raises(ValueError):
        reference_text(value)

"""Files of hostile lines, cut into pieces and blocks of any size, read as by a plain parser line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.diagnose import jsonlines, lines
from harness.diagnose.cells import Notes, is_label
from harness.diagnose.columns import Columns
from harness.diagnose.rows import Chunk, join

COLUMNS = Columns("table", "uid", ("a", "b"), step="step", attempt="attempt", length="tokens")
NAMES = ["uid", "a", "b", "step", "attempt", "tokens", "output", 'ou"t', "\\", "", "ä"]
FAR = 10**25

texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ['"uid": "x"', '\\"', "\\", '", "uid": "y', "\n", "\x00", "\ud800", "a" * 90, "1", "nan", "{", "}"]
)
numbers = (
    st.integers(-3, 12)
    | st.sampled_from([FAR, FAR + 1, 2**63, 2**64, 10**400, -(10**400)])
    | st.floats()
    | st.sampled_from([0.0, 1.0, 1e308, 1e-320])
)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
pairs = st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=8)  # a key may be there twice


@st.composite
def usual(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """A response as a trainer writes it."""
    row = {"step": draw(st.integers(1, 3)), "uid": draw(texts), "output": draw(texts), "a": draw(numbers), "b": 1.0}
    return list(row.items())


@st.composite
def encoded(draw: st.DrawFn) -> bytes:
    colon, comma = draw(st.sampled_from([": ", ":", " : "])), draw(st.sampled_from([", ", ",", " ,\t"]))
    plain = draw(st.booleans())
    parts = [
        json.dumps(key, ensure_ascii=plain) + colon + json.dumps(value, ensure_ascii=plain)
        for key, value in draw(usual() | pairs)
    ]
    text = "{" + comma.join(parts) + "}"
    return text.replace("\n", " ").encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    line = draw(encoded())
    start = draw(st.integers(0, len(line)))
    end = start + draw(st.integers(0, 4))
    put = draw(st.binary(max_size=2) | st.sampled_from([b'"', b"\\", b"{", b"}", b",", b":", b"\xff", b"\xed\xa0\x80"]))
    return (line[:start] + put + line[end:]).replace(b"\n", b" ")


@st.composite
def files(draw: st.DrawFn) -> bytes:
    other = st.sampled_from([b"", b" ", b"[1, 2]", b"null", b"{}", b"\xef\xbb\xbf{}", b"[" * 3000, b'{"uid": "a"'])
    rows = draw(st.lists(encoded() | damaged() | other, max_size=9))
    end = draw(st.sampled_from([b"\n", b"\r\n"]))
    start = draw(st.sampled_from([b"", b"", b"\xef\xbb\xbf"]))
    return start + end.join(rows) + draw(st.sampled_from([b"", end]))


def expected(data: bytes) -> Chunk:
    """By Python's own parser, one line after the other."""
    notes, kept, numbers, found = Notes(), [], [], data.split(b"\n")
    ended = found[-1] == b""
    if ended:
        found.pop()
    extras = ["step", "attempt", "tokens"]
    for number, line in enumerate(found, 1):
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8", "surrogateescape"))
        except (ValueError, RecursionError):
            cut = number == len(found) and not ended
            if line.strip():
                notes.add("cut last line" if cut else "unreadable line", "", number)
            continue
        if not isinstance(record, dict):
            notes.add("unreadable line", "", number)
        elif not is_label(record.get("uid")):
            notes.add("no group", "uid", number)
        else:
            numbers.append(number)
            kept.append(record)

    def cells(name: str) -> list[Any]:
        return [record.get(name) for record in kept]

    rest = {name: cells(name) for name in extras}
    rewards = [cells("a"), cells("b")]
    return jsonlines.chunk_of(COLUMNS, cells("uid"), np.array(numbers, np.int64), rewards, rest, notes, len(found))


def in_pieces(path: Path, piece: int) -> tuple[Chunk, dict[Any, int], dict[Any, int], int]:
    chunks, counts, first, before = [], {}, {}, 0
    size = path.stat().st_size
    for start in range(0, size, piece):
        chunk = jsonlines._piece(str(path), start, min(start + piece, size), COLUMNS)
        chunk.lines = chunk.lines + before
        for key, count in chunk.notes.counts.items():
            counts[key] = counts.get(key, 0) + count
            first.setdefault(key, chunk.notes.first[key] + before)
        before += chunk.read
        chunks.append(chunk)
    return join(chunks), counts, first, before


@settings(max_examples=100)
@given(files(), st.integers(1, 300), st.integers(1, 80))
def test_any_file_in_any_pieces(tmp_path_factory: pytest.TempPathFactory, data: bytes, piece: int, block: int) -> None:
    if not data:
        return
    path = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    path.write_bytes(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BLOCK", block)
        rows, counts, first, read = in_pieces(path, max(piece, len(data) // 20))
    wanted = expected(data)
    assert (counts, first, read) == (dict(wanted.notes.counts), wanted.notes.first, wanted.read)
    for name in ("steps", "attempts", "groups", "rewards", "lengths", "lines"):
        np.testing.assert_array_equal(getattr(rows, name), getattr(wanted, name), name)


def test_long_numbers_inside_a_label_stay_apart(tmp_path: Path) -> None:
    """A prompt of messages is its label; the fast parser makes floats of whole numbers beyond 64 bits."""
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"uid": [{{"id": {FAR + place}}}], "a": 1, "step": 1}}\n' for place in (0, 0, 1)))
    groups = jsonlines._piece(str(path), 0, path.stat().st_size, COLUMNS).groups.tolist()
    assert groups[0] == groups[1] != groups[2]


@pytest.mark.parametrize("block", [1, 2, 7, 64])
def test_blocks_are_whole_lines_and_all_of_them(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", block)
    for content in (b"a\nbb\n\nccc\n", b"a\nbb\n\nccc", b"\n\n", b"x" * 50, b"\n" + b"y" * 30 + b"\nz"):
        path = tmp_path / "file"
        path.write_bytes(content)
        for piece in range(1, len(content) + 2):
            found = b""
            for start in range(0, len(content), piece):
                with open(path, "rb", buffering=0) as file:
                    for buffer, first, stop in lines.line_blocks(file, start, min(start + piece, len(content))):
                        assert first < stop
                        found += buffer[first:stop]
                        assert found.endswith(b"\n") or found == content
            assert found == content

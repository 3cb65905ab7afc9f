"""The files to read: folders opened, in natural order, and bytes behind gzip or zstd."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from harness.errors import UserError

_KINDS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
_PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_STEP_IN_NAME = re.compile(r"(?:^|step[_\-]?|^completions_)(\d{1,15})$", re.IGNORECASE)
BLOCK = 4 << 20
_GZIP_BLOCK = 256 << 10
_ZSTD_BLOCK = 128 << 10
_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True)
class Source:
    """kind: jsonl, csv or parquet. packed: gzip, zstd or None. step: from a name such as 12.jsonl, step_12.csv or
    completions_00012.parquet; it counts where no column holds the step."""

    path: Path
    kind: str
    packed: str | None
    step: int | None

    @property
    def name(self) -> str:
        return str(self.path)


def find_sources(paths: Sequence[Path]) -> list[Source]:
    """The files, and those in the folders, in natural order. UserError: nothing there, or not a format that is read."""
    found: list[Source] = []
    for path in paths:
        if path.is_dir():
            inside = [source for item in path.iterdir() if item.is_file() and (source := _source(item))]
            if not inside:
                raise UserError(f"folder {path} holds no {', '.join(_KINDS)} file; give the files or another folder")
            found += sorted(inside, key=lambda source: _natural(source.path.name))
            continue
        if not path.is_file():
            raise UserError(f"there is no file {path}; check the path")
        source = _source(path)
        if source is None:
            raise UserError(f"{path}: read are {', '.join(_KINDS)}, also with .gz or .zst; rename or convert the file")
        found.append(source)
    seen: dict[Path, None] = {}
    for source in found:
        real = source.path.resolve()
        if real in seen:
            raise UserError(f"{source.path} is given twice; its responses would count double")
        seen[real] = None
    return found


def _source(path: Path) -> Source | None:
    packed = _PACKED.get(path.suffix.lower())
    inner = path.with_suffix("") if packed else path
    kind = _KINDS.get(inner.suffix.lower())
    if kind is None or (packed and kind == "parquet"):
        return None
    match = _STEP_IN_NAME.search(inner.stem)
    return Source(path, kind, packed, int(match[1]) if match else None)


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def open_bytes(source: Source) -> IO[bytes] | Any:
    """The bytes of a file; those of a zstd file unpacked, those of a gzip file as they are (:func:`blocks` unpacks)."""
    try:
        if source.packed != "zstd":
            return open(source.path, "rb")
        import pyarrow as pa

        return pa.input_stream(str(source.path), compression="zstd")
    except OSError as error:
        raise UserError(f"{source.path} cannot be read ({error}); check the file") from error


def blocks(source: Source, stream: Any, size: int = BLOCK) -> Iterator[bytes]:
    """Blocks of unpacked bytes; ends with :class:`CutStream` where a packed file stops in the middle or is damaged."""
    if source.packed == "gzip":
        yield from _gunzipped(source, stream)
        return
    size = size if source.packed is None else min(size, _ZSTD_BLOCK)
    while True:
        try:
            block = stream.read(size)
        except OSError as error:
            raise CutStream(f"{source.path}: {error}") from error
        if not block:
            return
        yield bytes(block)


def _gunzipped(source: Source, stream: Any) -> Iterator[bytes]:
    """All members of a gzip file, one after the other; of a cut one, all that can be had."""
    unpack = zlib.decompressobj(_GZIP)
    packed = stream.read(_GZIP_BLOCK)
    if not packed:
        return
    try:
        while packed:
            yield unpack.decompress(packed)
            packed = unpack.unused_data if unpack.eof else b""
            if unpack.eof:
                packed = packed.lstrip(b"\0") or stream.read(_GZIP_BLOCK)
                if packed:
                    unpack = zlib.decompressobj(_GZIP)
            else:
                packed = stream.read(_GZIP_BLOCK)
    except zlib.error as error:
        raise CutStream(f"{source.path}: {error}") from error
    if not unpack.eof:
        raise CutStream(f"{source.path} stops in the middle")


class CutStream(Exception):
    """A packed file that is not whole: what came before still counts."""

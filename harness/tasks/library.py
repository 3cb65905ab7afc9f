"""The data folder: fetch, verify and load data sets.

    ROOT/lock.json                     what was fetched: commit, checksums, rows
    ROOT/<data set>/source/<path>      the publisher's files, unchanged (without a network: put them here by hand)
    ROOT/<data set>/<split>.parquet    the same in verl's schema, made from them

Nothing of a data set counts before its checksums and row counts have been found right.
"""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UserError, nearest
from harness.tasks import downloads, records, schema
from harness.tasks.checksums import git_blob_of, sha256_of
from harness.tasks.datasets import DATASETS, Copy, Dataset, File
from harness.tasks.prompts import Example

LOCK_SCHEMA = 1
PLACED = "files placed by hand"


def dataset(name: str) -> Dataset:
    """The data set of that name. UserError names the nearest one."""
    if name not in DATASETS:
        raise UserError(f"unknown data set {name!r}: {nearest(name, DATASETS)}")
    return DATASETS[name]


@dataclass
class Findings:
    """What ``verify`` found of one data set: state ``missing``, ``verified`` or ``damaged``."""

    name: str
    state: str
    problems: list[str] = field(default_factory=list)


class Library:
    """Data sets below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- what is here -----------------------------------------------------------------------------------------------

    def locked(self, name: str) -> dict[str, Any] | None:
        """The lock entry of a data set: origin, revision, files, rows; None before it was fetched."""
        return self._lock()["datasets"].get(name)

    def revision(self, wanted: Dataset) -> str | None:
        """The commit to fetch: pinned, else locked, else None (the newest)."""
        entry = self.locked(wanted.name) or {}
        return wanted.source.revision or entry.get("revision")

    def load(self, name: str, split: str) -> list[Example]:
        """The examples of a split. UserError when it was not fetched, or the file is damaged."""
        wanted = dataset(name)
        splits = [file.split for file in wanted.files]
        if split not in splits:
            raise UserError(f"data set {name} has no split {split!r}: {nearest(split, splits)}")
        path = self._converted(name, split)
        entry = self.locked(name)
        if entry is None or not path.exists():
            raise UserError(
                f"data set {name} is not in {self.root}: "
                f"run `python -m harness data fetch {name} data.root={self.root}`"
            )
        examples = schema.read(path)
        if len(examples) != entry["rows"][split]:
            raise UserError(
                f"{path} has {len(examples)} rows, the lock file says {entry['rows'][split]}: "
                f"run `python -m harness data fetch {name} data.root={self.root}`"
            )
        return examples

    # -- fetch ------------------------------------------------------------------------------------------------------

    def fetch(self, name: str) -> str:
        """Bring a data set here, check it, convert it and lock it. Returns one line that says what was done.

        Files already below ``source/`` are used (and checked) before anything is downloaded.
        """
        wanted = dataset(name)
        with _explained(self.root):
            copied = self._known_copy(wanted)
            if copied is not None:
                path = self._source(name) / copied.file_name
                return self._accept(wanted, copied.origin, None, [(wanted.files[0], path)], copied)
            placed = self._placed(wanted)
            if placed is not None:
                return self._accept(wanted, *self._origin(wanted), placed, None)
            return self._download(wanted)

    def _origin(self, wanted: Dataset) -> tuple[str, str | None]:
        """(origin, commit) of files that lie here: what their checksums prove, else what was locked, else unknown."""
        if all(file.sha256 or file.git_blob for file in wanted.files):
            return wanted.source.name, wanted.source.revision
        entry = self.locked(wanted.name)
        if entry is None or entry["origin"] in [copied.origin for copied in wanted.copies]:
            return PLACED, None
        return entry["origin"], entry["revision"]

    def _download(self, wanted: Dataset) -> str:
        revision = self.revision(wanted)
        partial = self._source(wanted.name).with_name("partial")
        try:
            commit, arrived = downloads.download(wanted, revision, partial)
        except downloads.Unreachable as error:
            paths = ", ".join(file.path for file in wanted.files)
            raise UserError(
                f"data set {wanted.name} is not here and its source can't be reached ({error}): download {paths} of "
                f"{downloads.page_of(wanted, revision)} elsewhere, put it below {self._source(wanted.name)} and give "
                f"the command again, or set {downloads.endpoint_variable(wanted)} to a mirror"
            ) from error
        files = []
        for item in arrived:
            claims = (("sha256", item.sha256, sha256_of), ("git", item.git_blob, git_blob_of))
            for kind, claimed, measure in claims:
                if claimed is not None and measure(item.local) != claimed:
                    item.local.unlink(missing_ok=True)
                    raise UserError(
                        f"data set {wanted.name}: {item.path} arrived damaged ({kind} checksum {claimed[:12]} was "
                        "published); it was deleted, give the command again"
                    )
            target = self._source(wanted.name) / item.path
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(target.name + ".part")
            shutil.copyfile(item.local, part)
            files.append((item.file, part, target))
        for file, part, target in files:
            problem = self._checksum_problem(wanted, file, target, part)
            if problem is not None:
                part.unlink()
                raise UserError(f"data set {wanted.name}: {problem}; nothing was changed here")
        for _, part, target in files:
            part.replace(target)
        try:
            done = self._accept(wanted, wanted.source.name, commit, [(file, target) for file, _, target in files], None)
        except BaseException:
            for _, _, target in files:
                target.unlink(missing_ok=True)
            raise
        shutil.rmtree(partial, ignore_errors=True)
        return done

    def _accept(
        self,
        wanted: Dataset,
        origin: str,
        revision: str | None,
        files: list[tuple[File, Path]],
        copied: Copy | None,
    ) -> str:
        """Check, convert, lock."""
        rows, sources = {}, {}
        converted: dict[str, list[Example]] = {}
        for file, path in files:
            if copied is None:
                problem = self._checksum_problem(wanted, file, path, path)
                if problem is not None:
                    raise UserError(f"data set {wanted.name}: {problem}; delete the file and fetch it again")
            examples = records.read_examples(path, wanted.task, wanted.references)
            problem = _row_problem(file, len(examples), copied)
            if problem is not None:
                raise UserError(
                    f"data set {wanted.name}: {path}: {problem}; take another revision of it, or correct "
                    "harness/tasks/datasets.py if the publisher changed it"
                )
            converted[file.split] = examples
            rows[file.split] = len(examples)
            relative = path.relative_to(self._source(wanted.name)).as_posix()
            sources[relative] = {"sha256": sha256_of(path), "bytes": path.stat().st_size, "split": file.split}
        made = {}
        for split, examples in converted.items():
            target = self._converted(wanted.name, split)
            schema.write(target, wanted.name, wanted.task, split, examples)
            made[split] = sha256_of(target)
        entry = {"origin": origin, "revision": revision, "files": sources, "rows": rows, "converted": made}
        self._write_lock(wanted.name, entry)
        counts = ", ".join(f"{count:,} {split}" for split, count in rows.items())
        line = f"{wanted.name}: {counts} rows from {origin}" + (f" at {revision[:12]}" if revision else "")
        empty = [str(item.index) for examples in converted.values() for item in examples if not item.reference]
        return line + (f"; empty reference answer in row {', '.join(empty)}, kept" if empty else "")

    # -- verify -----------------------------------------------------------------------------------------------------

    def verify(self, name: str) -> Findings:
        """Recompute every checksum and count of a data set and read each row again."""
        wanted = dataset(name)
        entry = self.locked(name)
        if entry is None:
            return Findings(name, "missing")
        problems = []
        if wanted.source.revision and entry["revision"] not in (None, wanted.source.revision):
            problems.append(f"revision {entry['revision']} instead of the pinned {wanted.source.revision}")
        known = {copy.sha256: copy for copy in wanted.copies}
        for relative, recorded in entry["files"].items():
            path = self._source(name) / relative
            if not path.exists():
                problems.append(f"{path} is gone")
                continue
            digest = sha256_of(path)
            file = next(item for item in wanted.files if item.split == recorded["split"])
            copied = known.get(digest)
            problem = None if copied else self._checksum_problem(wanted, file, path, path)
            if problem is None and digest != recorded["sha256"]:
                problem = f"{path} has sha256 {digest}, the lock file says {recorded['sha256']}"
            if problem is None:
                try:
                    problem = _row_problem(
                        file, len(records.read_examples(path, wanted.task, wanted.references)), copied
                    )
                except UserError as error:
                    problem = str(error)
            problems += [problem] if problem else []
        for split, digest in entry["converted"].items():
            path = self._converted(name, split)
            if not path.exists():
                problems.append(f"{path} is gone")
            elif sha256_of(path) != digest:
                problems.append(f"{path} is not the file that was made")
        return Findings(name, "damaged" if problems else "verified", problems)

    # -- parts ------------------------------------------------------------------------------------------------------

    def _source(self, name: str) -> Path:
        return self.root / name / "source"

    def _converted(self, name: str, split: str) -> Path:
        return self.root / name / f"{split}.parquet"

    def _found(self, name: str) -> dict[str, Path]:
        folder = self._source(name)
        if not folder.is_dir():
            return {}
        paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".part")
        return {path.relative_to(folder).as_posix(): path for path in paths}

    def _known_copy(self, wanted: Dataset) -> Copy | None:
        found = self._found(wanted.name)
        for copied in wanted.copies:
            if copied.file_name in found and sha256_of(found[copied.file_name]) == copied.sha256:
                return copied
        return None

    def _placed(self, wanted: Dataset) -> list[tuple[File, Path]] | None:
        """The source's files when all lie here, under their path or their bare name."""
        found = self._found(wanted.name)
        placed = []
        for file in wanted.files:
            matches = fnmatch.filter(found, file.path) or fnmatch.filter(found, file.path.rsplit("/", 1)[-1])
            if len(matches) != 1:
                return None
            placed.append((file, found[matches[0]]))
        return placed

    def _checksum_problem(self, wanted: Dataset, file: File, name: Path, content: Path) -> str | None:
        """Why the content is not what is pinned or locked for it, or None."""
        if file.sha256 is not None and sha256_of(content) != file.sha256:
            return f"{name} has sha256 {sha256_of(content)}, pinned is {file.sha256}"
        if file.git_blob is not None and git_blob_of(content) != file.git_blob:
            return f"{name} has git checksum {git_blob_of(content)}, pinned is {file.git_blob}"
        entry = self.locked(wanted.name)
        from_a_copy = entry is not None and entry["origin"] in [copied.origin for copied in wanted.copies]
        if file.sha256 is None and file.git_blob is None and entry is not None and not from_a_copy:
            for recorded in entry["files"].values():
                if recorded["split"] == file.split and recorded["sha256"] != sha256_of(content):
                    return f"{name} has sha256 {sha256_of(content)}, the lock file says {recorded['sha256']}"
        return None

    def _lock(self) -> dict[str, Any]:
        path = self.root / "lock.json"
        if not path.exists():
            return {"schema": LOCK_SCHEMA, "datasets": {}}
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["schema"] != LOCK_SCHEMA or not isinstance(content["datasets"], dict):
                raise ValueError("another schema")
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is damaged ({error}); move it away and fetch again") from error
        return content

    def _write_lock(self, name: str, entry: dict[str, Any]) -> None:
        content = self._lock()
        content["datasets"][name] = entry
        path = self.root / "lock.json"
        part = path.with_name(f".lock.json.{os.getpid()}")
        part.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        part.replace(path)


def _row_problem(file: File, count: int, copied: Copy | None) -> str | None:
    expected = copied.rows if copied else file.rows
    return None if expected in (None, count) else f"{count} rows instead of {expected}"


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        place = error.filename or root
        raise UserError(
            f"cannot write {place} ({error.strerror or error}): choose another data folder with data.root=FOLDER"
        ) from error

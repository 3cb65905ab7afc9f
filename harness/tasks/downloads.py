"""Bringing files of a source here: from the hub (HF_ENDPOINT, HF_HOME, HF_TOKEN, HF_HUB_OFFLINE are honoured) or from a
file tree on GitHub. An interrupted download goes on where it stopped, also in a later command; progress is shown on a
terminal.
"""

from __future__ import annotations

import fnmatch
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UserError
from harness.tasks.checksums import git_blob_of, sha256_of
from harness.tasks.datasets import Dataset, File

REPOSITORY_ENDPOINT_VARIABLE = "DARA_REPOSITORY_ENDPOINT"
_REPOSITORY_ENDPOINT = "https://raw.githubusercontent.com"
_TIMEOUT = 30.0
_COMMIT = re.compile(r"[0-9a-f]{40}")


class Unreachable(Exception):
    """The source can't be reached; carries the reason in one line."""


@dataclass(frozen=True)
class Arrived:
    """A file that is now here. ``sha256`` / ``git_blob``: what the publisher says of it, None where it says nothing."""

    file: File
    path: str
    local: Path
    sha256: str | None
    git_blob: str | None


def download(dataset: Dataset, revision: str | None, partial: Path) -> tuple[str, list[Arrived]]:
    """(the commit, the files). ``partial`` is a folder for unfinished files; the hub's client keeps its own cache.

    Raises Unreachable without a network, UserError for a revision or file that the source does not have.
    """
    if dataset.source.kind == "hub":
        return _from_hub(dataset, revision, partial)
    if revision is None:
        raise UserError(
            f"data set {dataset.name}: a repository source needs a pinned commit in harness/tasks/datasets.py"
        )
    arrived = []
    for file in dataset.files:
        local = partial / revision / file.path
        _receive(f"{_repository_endpoint()}/{dataset.source.name}/{revision}/{file.path}", local, {})
        arrived.append(Arrived(file, file.path, local, file.sha256, file.git_blob))
    return revision, arrived


def page_of(dataset: Dataset, revision: str | None) -> str:
    """Where a person downloads the data by hand."""
    if dataset.source.kind == "hub":
        return f"the hub's data set {dataset.source.name}, revision {revision or 'main'}"
    return f"github.com/{dataset.source.name}, commit {revision}"


def endpoint_variable(dataset: Dataset) -> str:
    """The environment variable that names a mirror of the source."""
    return "HF_ENDPOINT" if dataset.source.kind == "hub" else REPOSITORY_ENDPOINT_VARIABLE


def _from_hub(dataset: Dataset, revision: str | None, partial: Path) -> tuple[str, list[Arrived]]:
    import httpx
    from huggingface_hub import HfApi, errors, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    repository = dataset.source.name
    endpoint = os.environ.get("HF_ENDPOINT") or None
    where = f"data set {dataset.name}: {repository}"
    try:
        info = HfApi(endpoint=endpoint).dataset_info(
            repository, revision=revision, files_metadata=True, timeout=_TIMEOUT
        )
        if info.sha is None or _COMMIT.fullmatch(info.sha) is None:
            raise UserError(f"{where}: the hub names no commit but {info.sha!r}; check HF_ENDPOINT={endpoint}")
        published = {item.rfilename: item for item in info.siblings or []}
        arrived = []
        for file in dataset.files:
            path = _match(file.path, list(published), where)
            item = published[path]
            sha256, git_blob = (item.lfs.sha256, None) if item.lfs else (None, item.blob_id)
            local = _cached(repository, path, info.sha, sha256, git_blob)
            if local is None:
                local = partial / info.sha / path
                address = hf_hub_url(repository, path, repo_type="dataset", revision=info.sha, endpoint=endpoint)
                _receive(address, local, build_hf_headers())
            arrived.append(Arrived(file, path, local, sha256, git_blob))
        return info.sha, arrived
    except errors.RevisionNotFoundError as error:
        raise UserError(
            f"{where} has no revision {revision}; correct it in harness/tasks/datasets.py or remove the data set from "
            "the lock file of the data folder to take the newest"
        ) from error
    except errors.GatedRepoError as error:
        raise UserError(f"{where} wants its terms accepted on the hub and HF_TOKEN set") from error
    except errors.RepositoryNotFoundError as error:
        raise UserError(f"{where} is not on the hub {endpoint or ''}: check HF_ENDPOINT and HF_TOKEN") from error
    except (errors.OfflineModeIsEnabled, errors.HfHubHTTPError, httpx.HTTPError, Unreachable) as error:
        cached = _from_hub_cache(dataset, revision)
        if cached is not None:
            return cached
        raise Unreachable(_one_line(error)) from error


def _cached(repository: str, path: str, commit: str, sha256: str | None, git_blob: str | None) -> Path | None:
    """The file as the hub's client keeps it under HF_HOME, when it is there and whole."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, path, revision=commit, repo_type="dataset")
    if not isinstance(found, str):
        return None
    local = Path(found)
    whole = (sha256 is None or sha256_of(local) == sha256) and (git_blob is None or git_blob_of(local) == git_blob)
    return local if whole else None


def _from_hub_cache(dataset: Dataset, revision: str | None) -> tuple[str, list[Arrived]] | None:
    """The files as the hub's client keeps them under HF_HOME, when all are there."""
    from huggingface_hub import errors, snapshot_download

    try:
        folder = Path(
            snapshot_download(dataset.source.name, repo_type="dataset", revision=revision, local_files_only=True)
        )
    except (errors.LocalEntryNotFoundError, ValueError, OSError):
        return None
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    arrived = []
    for file in dataset.files:
        matches = fnmatch.filter(names, file.path)
        if len(matches) != 1:
            return None
        arrived.append(Arrived(file, matches[0], folder / matches[0], None, None))
    return folder.name, arrived


def _match(pattern: str, names: Sequence[str], where: str) -> str:
    matches = fnmatch.filter(names, pattern)
    if len(matches) != 1:
        found = ", ".join(sorted(matches or names)[:6]) or "nothing"
        raise UserError(f"{where} has {len(matches)} files {pattern}, not one; found: {found}")
    if ".." in matches[0].split("/") or matches[0].startswith("/"):
        raise UserError(f"{where} names a file {matches[0]!r} outside its folder; do not trust this source")
    return matches[0]


def _repository_endpoint() -> str:
    return os.environ.get(REPOSITORY_ENDPOINT_VARIABLE, _REPOSITORY_ENDPOINT).rstrip("/")


def _receive(address: str, local: Path, headers: dict[str, str]) -> None:
    """Download into ``local``, going on from ``local.part`` where the server allows it."""
    import httpx
    from tqdm import tqdm

    if local.exists():
        return
    local.parent.mkdir(parents=True, exist_ok=True)
    part = local.with_name(local.name + ".part")
    have = part.stat().st_size if part.exists() else 0
    headers = {**headers, "Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        with httpx.stream("GET", address, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as answer:
            if answer.status_code == 416:
                part.unlink()
                raise Unreachable(f"{address} is shorter than the part that was here; give the command again")
            if answer.status_code == 404:
                raise UserError(f"{address} does not exist: correct the revision or path in harness/tasks/datasets.py")
            answer.raise_for_status()
            have = have if answer.status_code == 206 else 0
            size = int(answer.headers.get("Content-Length", 0)) + have
            with (
                open(part, "ab" if have else "wb") as file,
                tqdm(
                    total=size or None,
                    initial=have,
                    unit="B",
                    unit_scale=True,
                    desc=local.name,
                    disable=not sys.stderr.isatty(),
                ) as bar,
            ):
                for chunk in answer.iter_raw():
                    file.write(chunk)
                    bar.update(len(chunk))
    except httpx.HTTPError as error:
        raise Unreachable(_one_line(error)) from error
    part.replace(local)


def _one_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__

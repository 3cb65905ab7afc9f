"""A cached folder is built once, published whole, and survives dying builders."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.pocket.cache import built, cache_root, content_key

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
FORK = multiprocessing.get_context("fork")


def _slow_build(root: Path) -> None:
    def build(folder: Path) -> None:
        (folder / "first").write_text("1")
        with (root / "builds").open("a") as log:
            log.write(f"{os.getpid()}\n")
        time.sleep(0.3)
        (folder / "second").write_text("2")

    folder = built("thing", build, root)
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]


def test_processes_that_want_it_at_once_build_it_once(tmp_path: Path) -> None:
    workers = [FORK.Process(target=_slow_build, args=(tmp_path,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]
    assert len((tmp_path / "builds").read_text().split()) == 1
    assert not list(tmp_path.glob("*.part-*"))


def test_a_killed_builder_leaves_nothing_that_counts(tmp_path: Path) -> None:
    def hang(folder: Path) -> None:
        (folder / "half").write_text("")
        time.sleep(60)

    worker = FORK.Process(target=built, args=("thing", hang, tmp_path))
    worker.start()
    deadline = time.monotonic() + 10
    while not list(tmp_path.glob("thing.part-*/half")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join()
    assert not (tmp_path / "thing").exists()
    folder = built("thing", lambda path: (path / "whole").write_text("") and None, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["whole"]
    assert not list(tmp_path.glob("*.part-*"))


def test_a_failing_builder_leaves_nothing_and_raises(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        built("thing", fail, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thing.lock"]


def test_a_folder_that_cannot_be_written_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot write the cache .*DARA_CACHE"):
        built("thing", lambda path: None, tmp_path / "file" / "below")


def test_root_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DARA_CACHE", str(tmp_path / "elsewhere"))
    assert cache_root() == tmp_path / "elsewhere"
    monkeypatch.delenv("DARA_CACHE")
    assert cache_root().parts[-2:] == (".cache", "dara-harness")


def test_key_changes_with_values_sources_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "code.py"
    source.write_text("x = 1")
    key = content_key({"a": 1, "b": 2}, [source], ["numpy"])
    assert key == content_key({"b": 2, "a": 1}, [source], ["numpy"])
    assert key != content_key({"a": 1, "b": 3}, [source], ["numpy"])
    source.write_text("x = 2")
    assert key != content_key({"a": 1, "b": 2}, [source], ["numpy"])

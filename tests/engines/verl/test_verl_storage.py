"""Checkpoints of a verl run: at no moment less than one whole one, bounded, and clear about what does not fit."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.engines.verl import storage
from harness.errors import UserError


def write_checkpoint(folder: Path, step: int, workers: int = 2, *, marked: bool = True, whole: bool = True) -> None:
    actor = folder / f"global_step_{step}" / "actor"
    (actor / "huggingface").mkdir(parents=True)
    for rank in range(workers):
        for kind in ("model", "optim", "extra_state"):
            (actor / f"{kind}_world_size_{workers}_rank_{rank}.pt").write_bytes(b"x" * 100)
    (actor / "huggingface" / "config.json").write_text("{}")
    (actor / "huggingface" / "model.safetensors").write_bytes(b"w" * 1000)
    if whole:
        (folder / f"global_step_{step}" / "data.pt").write_bytes(b"d")
    if marked:
        (folder / storage.MARK).write_text(str(step))


def stored(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("global_step_*"))


def test_a_fresh_folder_starts_from_zero(tmp_path):
    assert storage.latest_step(tmp_path / "none") == 0
    assert storage.repair(tmp_path) == 0
    storage.require_world_size(tmp_path, 4)
    storage.require_space(tmp_path)


def test_a_checkpoint_without_its_mark_is_dropped_before_it_is_written_again(tmp_path):
    write_checkpoint(tmp_path, 10)
    write_checkpoint(tmp_path, 20, marked=False, whole=False)
    assert storage.repair(tmp_path) == 10
    assert stored(tmp_path) == ["global_step_10"]


@pytest.mark.parametrize("content", ["30", "", "three"])
def test_a_mark_that_names_nothing_falls_back_to_the_newest_whole_checkpoint(tmp_path, content):
    write_checkpoint(tmp_path, 10)
    write_checkpoint(tmp_path, 20)
    (tmp_path / storage.MARK).write_text(content)
    assert storage.repair(tmp_path) == 20
    assert storage.latest_step(tmp_path) == 20


def test_another_number_of_workers_is_refused_with_both_numbers_and_the_remedy(tmp_path):
    write_checkpoint(tmp_path, 10, workers=8)
    with pytest.raises(UserError, match=r"written by 8 worker\(s\), this run has 4; set engine\.nodes"):
        storage.require_world_size(tmp_path, 4)
    storage.require_world_size(tmp_path, 8)


def test_a_missing_shard_is_refused(tmp_path):
    write_checkpoint(tmp_path, 10, workers=2)
    (tmp_path / "global_step_10" / "actor" / "model_world_size_2_rank_1.pt").unlink()
    with pytest.raises(UserError, match="1 of 2 model shards"):
        storage.require_world_size(tmp_path, 2)


def test_exports_move_and_pruning_keeps_the_newest(tmp_path):
    for step in (10, 20, 30):
        write_checkpoint(tmp_path, step)
        storage.export(tmp_path, step, keep=step != 20, final=step == 30)
        storage.prune(tmp_path, 1, 1)
        assert stored(tmp_path) == [f"global_step_{step}"]
    assert sorted(path.name for path in (tmp_path / storage.EXPORTS).iterdir()) == ["30"]
    final = tmp_path / storage.FINAL
    assert (final / "model.safetensors").read_bytes() == b"w" * 1000
    assert (final / "config.json").exists()
    assert not list((tmp_path / "global_step_30" / "actor" / "huggingface").glob("*.safetensors"))


def test_all_exports_stay_unless_bounded(tmp_path):
    for step in (10, 20, 30):
        write_checkpoint(tmp_path, step)
        storage.export(tmp_path, step, keep=True, final=False)
        storage.prune(tmp_path, 2, None)
    assert stored(tmp_path) == ["global_step_20", "global_step_30"]
    assert sorted(path.name for path in (tmp_path / storage.EXPORTS).iterdir()) == ["10", "20", "30"]
    assert not (tmp_path / storage.FINAL).exists()


def test_a_step_that_is_not_evaluated_leaves_no_export(tmp_path):
    write_checkpoint(tmp_path, 5)
    storage.export(tmp_path, 5, keep=False, final=False)
    assert not (tmp_path / storage.EXPORTS).exists()
    assert not (tmp_path / "global_step_5" / "actor" / "huggingface" / "model.safetensors").exists()


KILLS = [("replace", 1), ("unlink", 1), ("unlink", 2)]
"""The call at which an export with two files of weights is killed: before it, it did nothing."""


@pytest.mark.parametrize(
    ("call", "number", "links"),
    [("link", 1, True), ("link", 2, True), *((*kill, links) for kill in KILLS for links in (True, False))],
)
def test_an_export_that_was_killed_is_made_again_from_its_checkpoint(tmp_path, monkeypatch, call, number, links):
    write_checkpoint(tmp_path, 10)
    written = tmp_path / "global_step_10" / "actor" / "huggingface"
    (written / "second.safetensors").write_bytes(b"v" * 500)
    export = tmp_path / storage.EXPORTS / "10"
    if not links:
        monkeypatch.setattr(storage.os, "link", refused)
    count, real = [0], {"link": os.link, "replace": os.replace, "unlink": Path.unlink}[call]

    def killed(*arguments, **options):
        count[0] += 1
        if count[0] == number:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "unlink" else storage.os, call, killed)
        with pytest.raises(KeyboardInterrupt):
            storage.export(tmp_path, 10, keep=True, final=True)
    assert export.exists() == (call == "unlink")
    for _ in range(2):  # what is whole stays as it is
        storage.export(tmp_path, 10, keep=True, final=True)
        exported = tmp_path / storage.FINAL
        assert (exported / "model.safetensors").read_bytes() == b"w" * 1000
        assert (exported / "second.safetensors").read_bytes() == b"v" * 500
        assert [path.name for path in export.parent.iterdir()] == ["10"]
        assert not list(written.glob("*.safetensors"))


@pytest.mark.parametrize("number", [1, 2])
def test_an_export_of_an_attempt_that_went_back_is_replaced_whole(tmp_path, monkeypatch, number):
    write_checkpoint(tmp_path, 10)
    storage.export(tmp_path, 10, keep=True, final=False)
    export = tmp_path / storage.EXPORTS / "10"
    (tmp_path / "global_step_10" / "actor" / "huggingface" / "model.safetensors").write_bytes(b"n" * 1000)
    count, replace = [0], os.replace

    def killed(*paths):
        count[0] += 1
        if count[0] == number:
            raise KeyboardInterrupt
        replace(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            storage.export(tmp_path, 10, keep=True, final=False)
    assert not export.exists() or (export / "model.safetensors").read_bytes() == b"w" * 1000
    storage.export(tmp_path, 10, keep=True, final=False)
    assert (export / "model.safetensors").read_bytes() == b"n" * 1000
    assert [path.name for path in export.parent.iterdir()] == ["10"]


def refused(*_paths):
    raise OSError(errno.ENOTSUP, "no links here")


def test_a_file_system_without_links_gets_copies(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.os, "link", refused)
    write_checkpoint(tmp_path, 10)
    storage.export(tmp_path, 10, keep=True, final=False)
    assert (tmp_path / storage.EXPORTS / "10" / "model.safetensors").read_bytes() == b"w" * 1000


def test_a_full_disk_is_no_missing_link(tmp_path, monkeypatch):
    def full(*_paths):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(storage.os, "link", full)
    write_checkpoint(tmp_path, 10)
    with pytest.raises(OSError, match="no space left"):
        storage.export(tmp_path, 10, keep=True, final=False)
    assert (tmp_path / "global_step_10" / "actor" / "huggingface" / "model.safetensors").exists()


def test_too_little_space_is_said_before_writing(tmp_path, monkeypatch):
    write_checkpoint(tmp_path, 10)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _path: SimpleNamespace(free=10))
    with pytest.raises(UserError, match=r"needs about .* GB.*continues from step 10"):
        storage.require_space(tmp_path)

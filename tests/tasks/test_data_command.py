"""`python -m harness data` as a user runs it, against a stand-in hub, a stand-in file tree and folders."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from stand_in import COMMIT, StandIn, serve

from harness import cli
from harness.errors import UserError
from harness.tasks.checksums import git_blob_of
from harness.tasks.datasets import DATASETS, Dataset
from harness.tasks.library import Library

MATH = "HuggingFaceH4/MATH-500"
AIME = "HuggingFaceH4/aime_2024"
AIME_PATH = "data/train-00000-of-00001.parquet"


def unpinned(wanted: Dataset) -> Dataset:
    files = tuple(replace(file, sha256=None) for file in wanted.files)
    return replace(wanted, source=replace(wanted.source, revision=None), files=files)


def math_file(rows: int = 500, first: str = "1") -> bytes:
    lines = [{"problem": f"What is {row}?", "answer": str(row) if row else first} for row in range(rows)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def aime_file() -> bytes:
    table = pyarrow.table({"id": list(range(30)), "problem": [f"p{row}" for row in range(30)], "answer": ["023"] * 30})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """With made-up files, so the pins of these data sets are taken away; the pins themselves: at the end."""
    for name in ("math500", "aime_2024", "minerva"):
        monkeypatch.setitem(DATASETS, name, unpinned(DATASETS[name]))
    stand_in = StandIn()
    stand_in.put(MATH, "test.jsonl", math_file())
    stand_in.put(MATH, "README.md", b"card")
    stand_in.put(AIME, AIME_PATH, aime_file())
    with serve(stand_in):
        yield stand_in


class Command:
    """The command with a data folder of its own; in this process unless a test needs another environment."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.capture = capture

    def __call__(self, *words: str, root: bool = True) -> tuple[int, str, str]:
        """(exit code, standard output, standard error)."""
        self.capture.readouterr()
        code = cli.main(["data", *words, *([f"data.root={self.root}"] if root else [])])
        return code, *self.capture.readouterr()

    def works(self, *words: str, root: bool = True) -> str:
        code, out, errors = self(*words, root=root)
        assert code == 0, out + errors
        return out

    def fails(self, *words: str) -> str:
        """The one line of a refused command."""
        code, _, errors = self(*words)
        assert code == 2, errors
        return one_line(errors)


def one_line(errors: str) -> str:
    assert errors.startswith("error: ")
    assert len(errors.strip().splitlines()) == 1, errors
    return errors


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-m", "harness", "data", *words],
        capture_output=True,
        text=True,
        env={**kept, **environment},
        timeout=120,
        check=False,
    )


@pytest.fixture
def data(tmp_path: Path, hub: StandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.setenv("DARA_REPOSITORY_ENDPOINT", hub.address)
    monkeypatch.setenv("DARA_CACHE", str(tmp_path / "cache"))
    return Command(tmp_path / "data", capsys)


def test_fetch_verify_list_from_the_hub(data: Command, hub: StandIn):
    out = data.works("fetch", "math500", "aime_2024")
    assert f"math500: 500 test rows from {MATH} at {COMMIT[:12]}" in out
    assert "licence: MIT" in out
    library = Library(data.root)
    assert library.locked("math500")["revision"] == COMMIT
    examples = library.load("aime_2024", "test")
    assert [example.reference for example in examples] == ["023"] * 30
    text = "p0 Please reason step by step, and put your final answer within \\boxed{}."
    assert examples[0].messages == ({"role": "user", "content": text},)
    frame = pyarrow.parquet.read_table(data.root / "math500" / "test.parquet").to_pylist()
    assert frame[3]["data_source"] == "math500"
    assert frame[3]["ability"] == "maths"
    assert frame[3]["reward_model"] == {"style": "rule", "ground_truth": "3"}
    assert frame[3]["extra_info"] == {"split": "test", "index": 3, "id": None}

    data.works("verify", "math500", "aime_2024")
    listed = data.works("list")
    assert f"{COMMIT} (locked at the first fetch)" in listed
    assert all(name in listed for name in DATASETS)

    before = len(hub.requests)
    data.works("fetch", "math500")
    assert len(hub.requests) == before, "what is here must not be asked for again"


def test_a_damaged_file_here_is_found(data: Command):
    data.works("fetch", "math500")
    source = data.root / "math500" / "source" / "test.jsonl"
    source.write_bytes(math_file(first="2"))
    code, out, _ = data("verify", "math500")
    assert code == 1
    assert "math500: damaged" in out
    assert "the lock file says" in out
    assert "delete the file and fetch it again" in data.fails("fetch", "math500")
    source.unlink()
    data.works("fetch", "math500")
    data.works("verify", "math500")
    (data.root / "math500" / "test.parquet").write_bytes(b"x")
    assert data("verify", "math500")[0] == 1
    (data.root / "math500" / "test.parquet").unlink()
    assert data("verify", "math500")[0] == 1


def test_a_file_that_arrives_damaged_is_refused(data: Command, hub: StandIn):
    lies = (("math500", "test.jsonl", math_file(first="2")), ("aime_2024", AIME_PATH, aime_file()[::-1]))
    for name, path, lie in lies:
        hub.lies[path] = lie
        assert "arrived damaged" in data.fails("fetch", name)
        assert Library(data.root).locked(name) is None
        hub.lies.clear()
        data.works("fetch", name)


def test_another_number_of_rows_is_refused(data: Command, hub: StandIn):
    hub.put(MATH, "test.jsonl", math_file(rows=499))
    assert "499 rows instead of 500" in data.fails("fetch", "math500")
    assert Library(data.root).locked("math500") is None
    assert not (data.root / "math500" / "source" / "test.jsonl").exists()


def test_a_file_that_the_hub_does_not_have(data: Command, hub: StandIn):
    hub.files = {("HuggingFaceH4/MATH-500", COMMIT, "data/renamed.jsonl"): math_file()}
    assert "0 files test.jsonl, not one; found: data/renamed.jsonl" in data.fails("fetch", "math500")


def test_a_hub_that_names_a_file_outside_the_folder_is_refused(
    data: Command, hub: StandIn, monkeypatch: pytest.MonkeyPatch
):
    loose = replace(DATASETS["minerva"], files=(replace(DATASETS["minerva"].files[0], path="*test*"),))
    monkeypatch.setitem(DATASETS, "minerva", loose)
    hub.put("math-ai/minervamath", "../../../test.jsonl", math_file(272))
    assert "outside its folder" in data.fails("fetch", "minerva")
    hub.files = {(MATH, "../main", "test.jsonl"): math_file()}
    assert "names no commit" in data.fails("fetch", "math500")


def test_a_revision_that_the_hub_does_not_have(data: Command):
    data.works("fetch", "math500")
    (data.root / "math500" / "source" / "test.jsonl").unlink()
    lock = data.root / "lock.json"
    lock.write_text(lock.read_text().replace(COMMIT, "f" * 40))
    assert "has no revision " + "f" * 40 in data.fails("fetch", "math500")


def test_other_content_under_the_locked_revision_is_refused(data: Command, hub: StandIn):
    data.works("fetch", "math500")
    (data.root / "math500" / "source" / "test.jsonl").unlink()
    hub.put(MATH, "test.jsonl", math_file(first="2"))
    assert "the lock file says" in data.fails("fetch", "math500")


def test_an_interrupted_download_goes_on(data: Command, hub: StandIn):
    hub.breaks["test.jsonl"] = 1
    assert "can't be reached" in data.fails("fetch", "math500")
    data.works("fetch", "math500")
    assert hub.ranges() == [f"bytes={len(math_file()) // 2}-"]
    data.works("verify", "math500")


def test_no_network_and_nothing_here(tmp_path: Path):
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9", "DARA_REPOSITORY_ENDPOINT": "http://127.0.0.1:9"}
    place = f"data.root={tmp_path}"
    done = run("fetch", "math500", place, HF_HOME=str(tmp_path / "hub"), **nowhere)
    assert done.returncode == 2
    line = one_line(done.stderr)
    assert "can't be reached" in line
    assert f"download test.jsonl of the hub's data set {MATH}" in line
    assert str(tmp_path / "math500" / "source") in line
    assert "HF_ENDPOINT" in line
    line = one_line(run("fetch", "rlla_4k", place, **nowhere).stderr)
    assert "DARA_REPOSITORY_ENDPOINT" in line
    assert "train.parquet" in line
    assert "no data below" in one_line(run("verify", place).stderr)


@pytest.fixture
def real(reference_material: Path) -> Iterator[StandIn]:
    """A hub with the real MATH-500 at the commit that is pinned, and something else as the newest."""
    content = (reference_material / "data" / "math500" / "test.jsonl").read_bytes()
    revision = DATASETS["math500"].source.revision
    assert revision is not None
    stand_in = StandIn()
    stand_in.put(MATH, "test.jsonl", content, revision)
    stand_in.put(MATH, "test.jsonl", math_file(), COMMIT)
    with serve(stand_in):
        yield stand_in


def test_the_pinned_commit_is_fetched_not_the_newest(real: StandIn, tmp_path: Path):
    pinned = str(DATASETS["math500"].source.revision)
    done = run("fetch", "math500", f"data.root={tmp_path}", HF_ENDPOINT=real.address, HF_HOME=str(tmp_path / "hub"))
    assert f"math500: 500 test rows from {MATH} at {pinned[:12]}" in done.stdout, done.stderr
    again = run("fetch", "math500", f"data.root={tmp_path}", HF_ENDPOINT="http://127.0.0.1:9")
    assert again.stdout == done.stdout
    assert run("verify", "math500", f"data.root={tmp_path}").returncode == 0
    assert f"{pinned} (pinned)" in run("list", "math500").stdout


def test_a_hub_without_the_pinned_commit_or_with_other_content(real: StandIn, tmp_path: Path):
    pinned = str(DATASETS["math500"].source.revision)
    environment = {"HF_ENDPOINT": real.address, "HF_HOME": str(tmp_path / "hub")}
    real.put(MATH, "test.jsonl", math_file(), pinned)
    line = one_line(run("fetch", "math500", f"data.root={tmp_path}", **environment).stderr)
    assert "pinned is 35dc41080a36" in line
    assert not (tmp_path / "math500" / "test.parquet").exists()
    del real.files[MATH, pinned, "test.jsonl"]
    other = f"data.root={tmp_path / 'other'}"
    assert f"has no revision {pinned}" in one_line(run("fetch", "math500", other, **environment).stderr)


def test_what_is_pinned():
    """Every source has a commit, every benchmark a number of rows; a checksum is whole or not there."""
    for wanted in DATASETS.values():
        assert re.fullmatch(r"[0-9a-f]{40}", str(wanted.source.revision)), wanted.name
        for file in wanted.files:
            assert file.rows
            assert file.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", file.sha256)
            assert "*" not in file.path


def test_what_the_hubs_cache_holds_is_enough(real: StandIn, tmp_path: Path):
    home = {"HF_HOME": str(tmp_path / "hub")}
    pinned = str(DATASETS["math500"].source.revision)
    script = (
        f"import huggingface_hub as hub; hub.hf_hub_download({MATH!r}, 'test.jsonl', repo_type='dataset', "
        f"revision={pinned!r})"
    )
    environment = {**os.environ, **home, "HF_ENDPOINT": real.address}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, timeout=60)
    before = len(real.requests)
    for index, setting in enumerate(({"HF_ENDPOINT": "http://127.0.0.1:9"}, {"HF_HUB_OFFLINE": "1"})):
        done = run("fetch", "math500", f"data.root={tmp_path / str(index)}", **home, **setting)
        assert done.returncode == 0, done.stderr
        assert pinned[:12] in done.stdout
    assert len(real.requests) == before


def test_files_placed_by_hand_are_taken_without_a_network(data: Command, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    folder = data.root / "math500" / "source"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_bytes(math_file())
    assert "files placed by hand" in data.works("fetch", "math500")
    data.works("verify", "math500")


def test_the_default_folder_is_in_the_cache(data: Command, tmp_path: Path):
    data.works("fetch", "aime_2024", root=False)
    assert (tmp_path / "cache" / "data" / "aime_2024" / "test.parquet").exists()


def test_one_that_fails_does_not_stop_the_others(data: Command, hub: StandIn):
    hub.files = {key: content for key, content in hub.files.items() if key[0] == AIME}
    code, out, errors = data("fetch", "math500", "aime_2024")
    assert code == 2
    assert "not fetched: math500" in errors
    assert "aime_2024: 30 test rows" in out


def test_mistakes_are_one_line(data: Command, tmp_path: Path):
    assert "did you mean 'math500'" in data.fails("fetch", "math-500")
    assert "did you mean 'data.root'" in data.fails("fetch", "dataroot=x")
    data.works("fetch", "aime_2024")
    (data.root / "lock.json").write_text("{")
    assert "lock.json is damaged" in data.fails("verify")
    (tmp_path / "file").write_text("")
    data.root = tmp_path / "file"
    assert "data.root=FOLDER" in data.fails("fetch", "math500")


@pytest.fixture
def tree(hub: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setenv("DARA_REPOSITORY_ENDPOINT", hub.address)
    return hub


def test_a_repository_with_other_content_is_refused(tree: StandIn, tmp_path: Path):
    wanted = DATASETS["rlla_4k"]
    for file in wanted.files:
        tree.put(wanted.source.name, file.path, b"PAR1 not the file", wanted.source.revision)
    with pytest.raises(UserError, match="arrived damaged"):
        Library(tmp_path).fetch("rlla_4k")
    assert Library(tmp_path).locked("rlla_4k") is None


def test_a_repository_without_the_commit(tree: StandIn, tmp_path: Path):
    with pytest.raises(UserError, match=r"does not exist: correct the revision or path"):
        Library(tmp_path).fetch("rlla_4k")


def test_a_repository_download_goes_on_where_it_stopped(tree: StandIn, tmp_path: Path, reference_material: Path):
    content = (reference_material / "data" / "deepscaler_dsr_sub_1209" / "dsr_sub.parquet").read_bytes()
    wanted = DATASETS["deepscaler_1209"]
    tree.put(wanted.source.name, wanted.files[0].path, content, wanted.source.revision)
    tree.breaks[wanted.files[0].path] = 1
    library = Library(tmp_path)
    with pytest.raises(UserError, match="can't be reached"):
        library.fetch("deepscaler_1209")
    assert "1,209 train rows" in library.fetch("deepscaler_1209")
    assert tree.ranges() == [f"bytes={len(content) // 2}-"]
    assert library.verify("deepscaler_1209").state == "verified"
    assert len(library.load("deepscaler_1209", "train")) == 1209


def test_git_checksum_is_gits(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"hello\n")
    assert git_blob_of(path) == "ce013625030ba8dba906f756967f9e9ca394464a"

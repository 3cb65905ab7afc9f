"""Runs are made once and whole; what was edited or cannot be written is said in one line."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from store_configs import small_config

from harness.config import RunConfig, config_hash, run_id
from harness.errors import UserError
from harness.store import RunStore

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_is_made_once_with_config_and_manifest(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    assert run.path == store.root / run_id(config)
    assert run.config == config
    manifest = run.manifest.read()
    assert manifest["config_hash"] == config_hash(config)
    assert manifest["seeds"] == {"seed": 0, "warm_start_seed": 0}
    assert manifest["attempts"] == []
    before = {path: path.stat().st_mtime_ns for path in run.path.iterdir()}
    assert store.create(config).run_id == run.run_id
    assert {path: path.stat().st_mtime_ns for path in run.path.iterdir()} == before
    assert [found.run_id for found in store.runs()] == [run.run_id]
    assert not [path for path in store.root.iterdir() if path.name.startswith(".")]


def test_many_processes_create_the_same_run_at_once(store: RunStore, config: RunConfig) -> None:
    script = (
        "import sys; sys.path[:0] = [sys.argv[2], sys.argv[3]]\n"
        "from store_configs import small_config\nfrom harness.store import RunStore\n"
        "run = RunStore(sys.argv[1]).create(small_config())\nassert run.config == small_config()\nprint(run.run_id)"
    )
    command = [sys.executable, "-c", script, str(store.root), str(ROOT), str(ROOT / "tests" / "store")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(6)]
    outputs = {process.communicate()[0].strip() for process in processes}
    assert [process.returncode for process in processes] == [0] * 6
    assert outputs == {run_id(config)}
    assert [path.name for path in store.root.iterdir()] == [run_id(config)]


def test_an_attempt_is_written_down(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    with run.lock("test"):
        assert run.begin_attempt({"engine": "local"}) == 1
        run.record("model_sha256", "abc")
        run.metrics.append(1, {"x": 1.0})
        run.end_attempt("failed", "ValueError: no")
        assert run.begin_attempt({}) == 2
        run.metrics.append(1, {"x": 2.0})
        run.end_attempt("interrupted")
    manifest = run.manifest.read()
    first, second = manifest["attempts"]
    assert (first["attempt"], first["outcome"], first["error"]) == (1, "failed", "ValueError: no")
    assert first["pid"] == os.getpid()
    assert first["engine"] == "local"
    assert first["start"] <= first["end"]
    assert first["packages"]["numpy"]
    assert first["machine"]["python"].startswith(f"{sys.version_info.major}.")
    assert "commit" in first["code"]
    assert second["outcome"] == "interrupted"
    assert manifest["records"] == {"model_sha256": "abc"}
    assert [row["attempt"] for row in run.metrics.rows()] == [2]


def test_metrics_need_an_attempt(store: RunStore, config: RunConfig) -> None:
    with pytest.raises(RuntimeError, match="begin_attempt"):
        store.create(config).metrics.append(1, {})


def test_an_evaluation_appears_whole_with_its_questions(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    questions = pd.DataFrame({"question": ["a", "b"], "correct": [1.0, 0.0]})
    run.write_evaluation("pocket", 5, {"n": 2, "metrics": {"reward/format": 0.5}}, questions)
    assert run.evaluations.read("pocket", 5) == {
        "schema": 1,
        "benchmark": "pocket",
        "step": 5,
        "n": 2,
        "metrics": {"reward/format": 0.5},
    }
    assert pd.read_parquet(run.path / "evals" / "pocket" / "5.parquet").equals(questions)
    assert run.evaluations.steps("pocket") == [5]
    assert run.evaluations.benchmarks() == ["pocket"]
    with pytest.raises(ValueError, match="lack"):
        run.write_evaluation("pocket", 6, {"metrics": {}})
    with pytest.raises(ValueError, match="benchmark"):
        run.write_evaluation("../pocket", 6, {"n": 1, "metrics": {}})
    run.evaluations.path("pocket", 5).write_text("{")
    with pytest.raises(UserError, match=r"5\.json: no valid JSON"):
        run.evaluations.read("pocket", 5)


def test_an_edited_config_damages_the_run_and_says_so(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    path = run.path / "config.yaml"
    path.write_text(path.read_text().replace("learning_rate: 0.0003", "learning_rate: 0.001"))
    status = store.get(run.run_id).status()
    assert status.state == "damaged"
    assert "config.yaml was edited or its folder renamed" in status.reason
    assert not status.startable
    with pytest.raises(UserError, match="undo the change"):
        _ = store.create(config).config


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "no valid YAML"),
        ("- 1", "must be a mapping"),
        ("seed: 1", "method must name an aggregation method"),
        ("\x00", "no valid YAML"),
        ("!!python/object/apply:os.system ['true']", "no valid YAML"),
        (None, "cannot be read"),
    ],
)
def test_a_damaged_config_is_one_line(store: RunStore, config: RunConfig, content: str | None, words: str) -> None:
    run = store.create(config)
    path = run.path / "config.yaml"
    path.unlink() if content is None else path.write_text(content)
    status = run.status()
    assert status.state == "damaged"
    assert words in status.reason
    assert str(path) in status.reason
    assert "\n" not in status.reason


def test_a_config_stored_before_the_data_folder_could_be_chosen(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    path = run.path / "config.yaml"
    path.write_text(path.read_text().replace("  root: null\n", ""))
    assert "root" not in path.read_text()
    assert run.status().state == "new"
    assert store.get(run.run_id).config == config


def test_settings_outside_the_identity_may_change(store: RunStore, config: RunConfig) -> None:
    run = store.create(config)
    changed = dataclasses.replace(config, output=dataclasses.replace(config.output, checkpoint_every=3))
    path = run.path / "config.yaml"
    path.write_text(path.read_text().replace("checkpoint_every: 10", "checkpoint_every: 3"))
    assert run.status().state == "new"
    assert store.get(run.run_id).config == changed
    run.adopt(config)
    assert store.get(run.run_id).config == config
    with pytest.raises(ValueError, match="is not"):
        run.adopt(small_config(seed=4))


@pytest.mark.parametrize("content", ["{", "[]", '{"schema": 99}', None])
def test_a_damaged_manifest_is_one_line(store: RunStore, config: RunConfig, content: str | None) -> None:
    run = store.create(config)
    run.manifest.path.unlink() if content is None else run.manifest.path.write_text(content)
    status = run.status()
    assert (status.state, "manifest.json" in status.reason) == ("damaged", True)
    assert [found.run_id for found in store.runs()] == [run.run_id]


def test_an_unknown_run_names_the_nearest(store: RunStore, config: RunConfig) -> None:
    name = store.create(config).run_id
    with pytest.raises(UserError, match=f"did you mean '{name}'"):
        store.get(name[:-1])
    for outside in ("", ".", "..", "../runs", "/"):
        with pytest.raises(UserError, match="has no run"):
            store.get(outside)


def test_other_folders_are_no_runs(store: RunStore, config: RunConfig) -> None:
    assert store.runs() == []
    store.create(config)
    (store.root / "notes").mkdir()
    (store.root / "file.txt").write_text("")
    assert len(store.runs()) == 1


def test_a_file_in_place_of_the_folder(tmp_path: Path, config: RunConfig) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(UserError, match=r"runs.*a file stands where a folder is needed.*output\.runs=FOLDER"):
        RunStore(tmp_path / "runs").create(config)
    with pytest.raises(UserError, match="give the folder of the runs"):
        RunStore(tmp_path / "runs").runs()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> None:
    with open(folder / "filler", "wb", buffering=0) as file:
        for size in (4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                pass


def test_a_full_disk_loses_nothing(small_disk: Path, config: RunConfig, other_seed: RunConfig) -> None:
    store = RunStore(small_disk / "runs")
    run = store.create(config)
    with run.lock("test"):
        run.begin_attempt({})
        run.metrics.append(1, {"x": 1.0})
        fill(small_disk)
        manifest, metrics = run.manifest.path.read_bytes(), run.metrics.path.read_bytes()
        full = r"no space left to write .*: free space or choose another disk with output\.runs=FOLDER"
        with pytest.raises(UserError, match=full):
            run.metrics.append(2, {f"key{number}": 0.5 for number in range(400)})
        with pytest.raises(UserError, match=full):
            run.end_attempt("failed", "x" * 8192)
        with pytest.raises(UserError, match=full):
            run.write_evaluation("pocket", 5, {"n": 1, "metrics": {"x": 0.1}})
        with pytest.raises(UserError, match=full):
            store.create(other_seed)
        run.log("is not raised")
        assert (run.manifest.path.read_bytes(), run.metrics.path.read_bytes()) == (manifest, metrics)
        (small_disk / "filler").unlink()
        run.metrics.append(2, {"x": 2.0})
        run.end_attempt("interrupted")
    assert [row["step"] for row in run.metrics.rows()] == [1, 2]
    assert [path.name for path in store.root.iterdir()] == [run.run_id]
    assert json.loads(run.manifest.path.read_bytes())["attempts"][0]["outcome"] == "interrupted"


def test_a_read_only_disk(small_disk: Path, config: RunConfig, other_seed: RunConfig) -> None:
    store = RunStore(small_disk / "runs")
    run = store.create(config)
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    words = "make the folder writable or choose another one"
    with pytest.raises(UserError, match=words):
        store.create(other_seed)
    with pytest.raises(UserError, match=words), run.lock("test"):
        pass
    assert run.status().state == "new"

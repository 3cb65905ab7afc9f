"""The preflight of this engine: GPUs as nvidia-smi tells them, models and checkpoints as they lie on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engines.verl import preflight
from harness.launch import doctor
from harness.launch.findings import problems
from harness.store import RunStore

H100 = "NVIDIA H100 80GB HBM3, 81559"


@pytest.fixture(scope="module")
def config():
    return doctor._composed(["scale=paper", "model=qwen2.5-1.5b"])


def nvidia_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_too_few_gpus_are_counted(config, tmp_path, monkeypatch):
    nvidia_smi(tmp_path, f"echo '{H100}'; echo '{H100}'", monkeypatch)
    (found,) = preflight._gpus(config, None)
    assert (found.level, found.text) == ("problem", "2 GPU(s) on this node, engine.gpus_per_node=4")


@pytest.mark.parametrize(("parameters", "level"), [(1_540_000_000, "ok"), (400_000_000_000, "problem")])
def test_the_memory_of_the_gpus_is_held_against_the_model(config, tmp_path, monkeypatch, parameters, level):
    nvidia_smi(tmp_path, f"for i in 1 2 3 4; do echo '{H100}'; done", monkeypatch)
    gpus, memory = preflight._gpus(config, parameters)
    assert (gpus.level, gpus.text) == ("ok", "4 x NVIDIA H100 80GB HBM3, 86 GB each")
    assert memory.level == level
    if level == "ok":  # 16 bytes a parameter over 4 GPUs; 0.6 of 85.5 GB less 2 bytes a parameter
        assert "6.2 GB of training state and 3.1 GB of served weights on each GPU, 48.2 GB" in memory.text


def test_a_driver_that_hangs_is_a_problem_not_a_wait(config, tmp_path, monkeypatch):
    nvidia_smi(tmp_path, "exec sleep 30", monkeypatch)
    monkeypatch.setattr(preflight, "GPU_SECONDS", 0.2)
    (found,) = preflight._gpus(config, None)
    assert found.level == "problem"
    assert "did not answer" in found.text


@pytest.mark.parametrize(("offline", "level"), [("", "note"), ("1", "problem")])
def test_a_model_that_is_not_here_is_a_problem_where_nothing_can_be_fetched(
    config, tmp_path, monkeypatch, offline, level
):
    nvidia_smi(tmp_path, f"for i in 1 2 3 4; do echo '{H100}'; done", monkeypatch)
    monkeypatch.setenv("HF_HUB_OFFLINE", offline)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    _, model = preflight._gpus(config, None)
    assert (model.subject, model.level) == ("model", level)
    assert "huggingface-cli download Qwen/Qwen2.5-1.5B-Instruct" in model.remedy


def test_a_checkpoint_of_another_number_of_workers_is_found_before_the_gpus_are_taken(config, tmp_path):
    run = RunStore(tmp_path).create(config)
    assert preflight._resumed(config, run.path) == []
    actor = run.checkpoints / "global_step_10" / "actor"
    actor.mkdir(parents=True)
    for rank in range(8):
        (actor / f"model_world_size_8_rank_{rank}.pt").write_bytes(b"")
    (run.checkpoints / "latest_checkpointed_iteration.txt").write_text("10")
    (found,) = preflight._resumed(config, run.path)
    assert found.level == "problem"
    assert "written by 8 worker(s), this run has 4" in found.text


def test_a_check_that_cannot_be_made_keeps_no_run_from_starting(config, monkeypatch, tmp_path):
    def broken(*_arguments):
        raise OSError("the file system of the packages is away")

    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    monkeypatch.setattr(preflight, "diagnose", broken)
    monkeypatch.setattr(doctor, "_data", lambda _config: [])
    findings = doctor.require(config)
    assert problems(findings) == []
    assert "could not be checked (OSError: the file system of the packages is away)" in findings[-1].text

"""Ray over the two nodes of the test cluster, and a run of verl as a SLURM job. Needs the ``verl`` extra."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from slurm_shell import Shell

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.verl,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray"),
]


def test_ray_over_two_nodes_and_nothing_of_it_left(shell: Shell) -> None:
    """Both nodes are this machine under two names: joining, GPUs and teardown are tried, a second host is not."""
    launcher = ("time=30", "cpus_per_task=2")
    shell.launch(
        "method=gdpo", "engine.nodes=2", "engine.gpus_per_node=2", "+engine.options.ray=true", launcher=launcher
    )
    shell.wait_done(1, 500)
    (run,) = shell.folders()
    assert (run / "ray.txt").read_text() == "2 nodes 4 GPUs"
    shell.wait(lambda: not shell.queue(), 90, "the job to end")
    shell.wait(lambda: not _processes_of_ray(str(shell.runs)), 20, "Ray's agents, which see the end of their node")


def _processes_of_ray(folder: str) -> list[str]:
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and _of_ray(pid, folder)]


def _of_ray(pid: str, folder: str) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return False
    return "SLURM_JOB_ID=" in environment and folder in environment and "ray" in command


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs verl")
def test_a_node_without_gpus_is_found_before_verl_starts(shell: Shell) -> None:
    command = [
        *(sys.executable, str(shell.code / "harness" / "run.py"), "-m", "method=gdpo", "engine=verl"),
        *("engine.gpus_per_node=1", "training.steps=2", f"output.runs={shell.runs}", "hydra/launcher=slurm"),
        *("hydra.launcher.time=60", "hydra.launcher.gpus_per_node=0", "hydra.launcher.prepare=false"),
    ]
    shell.run(command, seconds=300)
    shell.wait(lambda: shell.states() == ["failed"], 300, "failure")
    (status,) = shell.status().values()
    assert "the run cannot start" in status["reason"]
    assert "GPUs: nvidia-smi is not there, no NVIDIA GPU seen -> start on a GPU node" in status["reason"]


@pytest.mark.skipif(importlib.util.find_spec("verl") is None, reason="needs verl")
def test_verl_as_a_job_and_its_evaluation_as_another(shell: Shell) -> None:
    """Step 1 has a checkpoint only because it is evaluated; the evaluation waits for the training."""
    small = ("training.responses_per_step=64", "training.evaluation_prompts=16", "training.evaluate_every=2")
    command = [
        *(sys.executable, str(shell.code / "harness" / "run.py"), "-m", "method=gdpo", "engine=verl"),
        *("engine.device=cpu", "engine.gpus_per_node=1", "training.steps=2", *small, "evaluate_at=[1]"),
        *("output.checkpoint_every=2", f"output.runs={shell.runs}", "hydra/launcher=slurm"),
        *("hydra.launcher.time=60", "hydra.launcher.gpus_per_node=0", "hydra.launcher.cpus_per_task=2"),
    ]
    output = shell.run(command, seconds=600)
    assert output.count("submitted job") == 2
    shell.wait(lambda: not shell.queue(), 900, "both jobs to end")
    (status,) = shell.status().values()
    assert status["state"] == "done", shell.logs()
    assert status["evaluations"]["pocket"]["state"] == "done"
    (run,) = shell.folders()
    assert sorted(path.name for path in (run / "checkpoints" / "exports").iterdir()) == ["1", "2"]
    result = json.loads((run / "evals" / "pocket" / "1.json").read_text())
    assert (result["n"], result["complete"]) == (16, True)
    assert "submitted" not in shell.run(command, seconds=600)

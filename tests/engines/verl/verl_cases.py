"""What several tests of the verl engine share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

from harness.store import Run, RunStore

ROOT = Path(__file__).resolve().parents[3]

try:
    version("verl")
    INSTALLED = True
except PackageNotFoundError:
    INSTALLED = False

needs_verl = [
    pytest.mark.verl,
    pytest.mark.skipif(not INSTALLED, reason="verl is not installed: pip install -e '.[verl,test]'"),
]


def infos_of(channels: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """What a reward function returns for each response, from channel -> values."""
    count = len(next(iter(channels.values())))
    rows = [{name: values[row] for name, values in channels.items()} for row in range(count)]
    for row in rows:
        row["score"] = sum(value for value in row.values() if value is not None)
    return rows


def run_python(
    arguments: list[str], *, timeout: float, standard_input: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A subprocess from the root of the repository."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        input=standard_input,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


SECONDS = 570.0
SMALL = (
    "engine=verl",
    "engine.device=cpu",
    "engine.gpus_per_node=1",
    "training.responses_per_step=64",
    "training.evaluation_prompts=16",
    "training.evaluate_every=2",
    "output.checkpoint_every=1",
    "output.rollouts_every=1",
    "hydra.launcher.workers=1",
)


def train(folder: Path, *overrides: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The pocket task by verl on the CPU, through the harness's own command."""
    return run_python(
        ["harness/run.py", "-m", f"output.runs={folder}", *SMALL, *overrides],
        timeout=SECONDS,
        OMP_NUM_THREADS="1",
        **environment,
    )


def start(folder: Path, *overrides: str) -> subprocess.Popen[bytes]:
    """As :func:`train`, in the background."""
    return subprocess.Popen(
        [sys.executable, "harness/run.py", "-m", f"output.runs={folder}", *SMALL, *overrides],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def wait_for(condition: Callable[[], Any], seconds: float, process: subprocess.Popen[bytes] | None = None) -> None:
    """Until the condition holds; fails after ``seconds``, and when ``process`` has ended before."""
    limit = time.monotonic() + seconds
    while not condition() and (process is None or process.poll() is None) and time.monotonic() < limit:
        time.sleep(0.1)
    assert condition()


def only_run(folder: Path) -> Run:
    (run,) = RunStore(folder).runs()
    return run


def log_of(run: Run) -> str:
    logs = sorted((run.path / "verl").glob("attempt_*.log"))
    return logs[-1].read_text(errors="replace")[-4000:] if logs else "no log"


def processes_of(run: Run) -> list[tuple[int, str]]:
    """Processes of this run's child and of the Ray it started, by their working folder: pid and command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "cwd") == str(run.path / "verl"):
                    found.append((int(entry.name), (entry / "cmdline").read_text().replace("\0", " ")))
            except OSError:
                continue
    return found


def run_plain(folder: Path, keys: str, estimator: str = "dara_asym") -> subprocess.CompletedProcess[str]:
    """A user's own command, as docs/verl.md has it: no harness run, no store."""
    made = run_python(["-W", "ignore", "examples/verl/make_toy.py", str(folder)], timeout=120)
    assert made.returncode == 0, made.stderr
    return run_python(
        [
            "-m",
            "verl.trainer.main_ppo",
            "--config-dir=examples/verl",
            "--config-name=cpu",
            f"algorithm.adv_estimator={estimator}",
            f"+algorithm.reward_keys={keys}",
            f"toy={folder}",
            f"hydra.run.dir={folder / 'hydra'}",
            f"trainer.rollout_data_dir={folder / 'rollouts'}",
        ],
        timeout=SECONDS,
        VERL_PLATFORM="cpu",
        VERL_ENGINE_DEVICE="cuda",
        VERL_USE_EXTERNAL_MODULES="harness.engines.verl.cpu_platform",
        OMP_NUM_THREADS="1",
    )

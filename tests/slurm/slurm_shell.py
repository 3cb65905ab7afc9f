"""What the tests of SLURM share: a cluster, a user at a login node, and how to check a run."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


cluster_module = _load("cluster")


def free_ports(count: int) -> int:
    """The first of ``count`` neighbouring free ports."""
    for first in range(17000, 30000, 50):
        with_all = []
        try:
            for port in range(first, first + count):
                with_all.append(socket.create_server(("127.0.0.1", port)))
            return first
        except OSError:
            continue
        finally:
            for item in with_all:
                item.close()
    raise RuntimeError("no free ports")


def start_cluster(**settings: Any) -> Any:
    """In a folder of its own that munge's user may enter; skips the test where SLURM cannot be started."""
    absent = cluster_module.missing(settings.get("accounting", False))
    if absent or os.geteuid():
        pytest.skip(f"needs root and {', '.join(absent) or 'nothing else'} (apt-get install slurm-wlm munge)")
    cluster = cluster_module.Cluster(Path(tempfile.mkdtemp(prefix="slurm-")), free_ports(10), **settings)
    try:
        cluster.start()
    except BaseException:
        cluster.stop()
        raise
    return cluster


@contextlib.contextmanager
def user_of(cluster: Any, folder: Path) -> Iterator[Shell]:
    """A user at a login node of ``cluster``, whose jobs are cancelled when the test is over."""
    user = Shell(cluster, folder)
    yield user
    jobs = user.queue()
    if jobs:
        cluster.run("scancel", *jobs)
        user.wait(lambda: not user.queue(), 30, "jobs to end")


class Shell:
    """A user at a login node: one store, the documented commands, each in a process of its own."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster = cluster
        self.runs = folder / "runs"
        self.code = ROOT
        self.folder = folder
        package = folder / "plugins" / "standin"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "engine.py").write_text((HERE / "slurm_engine.py").read_text())
        self.environment = {
            **cluster.environment,
            "PATH": f"{Path(sys.executable).parent}:{cluster.environment['PATH']}",
            "PYTHONPATH": f"{ROOT}:{package.parent}",
            "COLUMNS": "200",
        }

    def command(
        self, *overrides: str, steps: int = 4, seconds: float = 0.05, launcher: Sequence[str] = ()
    ) -> list[str]:
        return [
            sys.executable,
            str(self.code / "harness" / "run.py"),
            "-m",
            *overrides,
            f"training.steps={steps}",
            f"+engine.options.seconds={seconds}",
            "engine.name=standin.engine",
            "output.checkpoint_every=2",
            f"output.runs={self.runs}",
            "hydra/launcher=slurm",
            "hydra.launcher.time=60",
            "hydra.launcher.prepare=false",
            *(f"hydra.launcher.{item}" for item in launcher),
        ]

    def train(self, *overrides: str, runs: Path | None = None, steps: int = 6) -> str:
        """Launch the embedded engine itself, small; the first time the pocket model is built (a minute) if no cache has
        it."""
        small = ("training.responses_per_step=64", "training.evaluation_prompts=32", f"training.steps={steps}")
        command = [sys.executable, str(self.code / "harness" / "run.py"), "-m", *small, *overrides]
        return self.run([*command, f"output.runs={self.runs if runs is None else runs}"], seconds=400)

    def use(self, code: Path) -> None:
        """Give the next commands with another checkout."""
        self.environment["PYTHONPATH"] = f"{code}:{self.folder / 'plugins'}"
        self.code = code

    def folders(self) -> list[Path]:
        return sorted(path for path in self.runs.iterdir() if not path.name.startswith("."))

    def outputs(self) -> list[Path]:
        """What SLURM kept of the jobs' own output."""
        return sorted(self.runs.glob(".slurm/submissions/*/*.out"))

    def spans(self) -> list[tuple[float, float]]:
        """When each job's process began and ended."""
        spans = []
        for path in self.runs.glob(".slurm/submissions/*/events/*.jsonl"):
            events = [json.loads(line) for line in path.read_text().splitlines()]
            spans.append((events[0]["time"], events[-1]["time"]))
        return spans

    def start(self, *overrides: str, **settings: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*overrides, **settings),
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: Sequence[str], seconds: float) -> str:
        """Any command of this user that has to succeed; returns what it printed."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def launch(self, *overrides: str, expect: int = 0, **settings: Any) -> str:
        process = self.start(*overrides, **settings)
        output, _ = process.communicate(timeout=120)
        assert process.returncode == expect, output
        return output

    def harness(self, *arguments: str, expect: int | None = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert expect is None or done.returncode == expect, done.stdout + done.stderr
        return done.stdout + done.stderr

    def status(self) -> dict[str, dict[str, Any]]:
        return dict(json.loads(self.harness("status", "--runs", str(self.runs), "--json", expect=None)))

    def states(self) -> list[str]:
        return [status["state"] for status in self.status().values()]

    def wait(self, condition: Callable[[], Any], seconds: float = 60, what: str = "") -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.2)
        raise TimeoutError(f"{what or condition}: {self.status()}\n{self.cluster.run('squeue', '-a')}\n{self.logs()}")

    def wait_done(self, count: int, seconds: float = 90) -> None:
        self.wait(lambda: self.done() == count, seconds, f"{count} runs done")

    def done(self) -> int:
        return len(list(self.runs.glob("*/evals/pocket/*.json")))

    def wait_for_step(self, step: int, seconds: float = 60) -> Path:
        """The folder of the only run, once it has logged ``step``."""
        return Path(self.wait(lambda: self._at(step), seconds, f"step {step}"))

    def _at(self, step: int) -> Path | None:
        for path in self.runs.glob("*/steps.txt"):
            if int(path.read_text().splitlines()[-1].split()[0]) >= step:
                return path.parent
        return None

    def queue(self) -> list[str]:
        """Ids of the jobs of this store that wait or run."""
        text = self.cluster.run("squeue", "-h", "-r", "-o", "%A|%o")
        return [line.split("|")[0] for line in text.splitlines() if str(self.runs) in line]

    def node_of(self, run: Path) -> str:
        """Where the job that trains ``run`` runs."""
        text = self.cluster.run("squeue", "-h", "-r", "-o", "%j|%N|%o")
        lines = [line.split("|") for line in text.splitlines()]
        return next(node for name, node, script in lines if name == run.name and str(self.runs) in script)

    def reason_with(self, word: str) -> str | None:
        return next((item["reason"] for item in self.status().values() if word in item["reason"]), None)

    def sbatch_calls(self) -> int:
        return len(list(self.runs.glob(".slurm/submissions/*/job_id")))

    def logs(self) -> str:
        paths = [*self.runs.glob(".slurm/submissions/*/*.out"), *self.runs.glob("*/log.txt")]
        return "\n".join(f"{path.name}: {path.read_text(errors='replace')[-1500:]}" for path in sorted(paths))


def kill_job(job: str, number: int, only: str = "") -> None:
    """Send a signal to the processes of a job (those with ``only`` on their command line)."""
    mark = f"SLURM_JOB_ID={job}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            command = Path(f"/proc/{name}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if mark in environment and only in command:
                os.kill(int(name), number)


def steps_of(run: Path) -> list[int]:
    """Every step that was done, in the order in which it was, repeated ones included."""
    return [int(line.split()[0]) for line in (run / "steps.txt").read_text().splitlines()]


def undisturbed(seed: int, steps: int) -> list[float]:
    """What an uninterrupted run of the stand-in engine logs."""
    return [float(value) for value in np.cumsum(np.random.default_rng(seed).normal(size=steps))]


def rewards_of(run: Path) -> list[float]:
    """The metrics of a run, last attempt wins."""
    rows: dict[int, float] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["step"]] = row["reward/format"]
    return [rows[step] for step in sorted(rows)]


def metrics_of(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, last attempt wins, without what tells one execution from another."""
    rows: dict[int, dict[str, Any]] = {}
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        rows[row["step"]] = {key: value for key, value in row.items() if key not in ("seconds", "attempt")}
    return [rows[step] for step in sorted(rows)]


def seed_of(run: Path) -> int:
    match = re.search(r"-s(\d+)-", run.name)
    assert match is not None
    return int(match.group(1))


def check_run(run: Path, *, steps: int, repeated: int = 0) -> None:
    """Metrics equal an undisturbed run's, and no more than ``repeated`` steps were done twice."""
    assert rewards_of(run) == pytest.approx(undisturbed(seed_of(run), steps), abs=1e-12)
    assert len(steps_of(run)) <= steps + repeated

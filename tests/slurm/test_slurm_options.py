"""Options of the launcher, and the script they become. Needs no SLURM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.launch.slurm.executor import ArrayExecutor, _ranges
from harness.launch.slurm.options import (
    Resources,
    after_training,
    evaluation_resources,
    parse_minutes,
    read_options,
)
from harness.launch.slurm.submissions import Submission, Task

ROOT = Path(__file__).resolve().parents[2]
NOTHING = dict.fromkeys(("partition", "time", "gpus_per_node", "cpus_per_task", "mem_gb"))


def options(**changes: Any) -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "conf" / "hydra" / "launcher" / "slurm.yaml").read_text())
    content.pop("_target_")
    return {**content, **changes}


def script(tmp_path: Path, tasks: int = 3, **changes: Any) -> str:
    settings = read_options(options(**changes))
    submission = Submission.create(
        tmp_path, {index: Task("train", f"run{index}") for index in range(tasks)}, settings={}
    )
    executor = ArrayExecutor(submission)
    executor.configure(settings, Resources(2, 4), name="name", code=Path("/code"), environment={"A": "b c"})
    return executor.script()


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("1:30", 1.5), ("12:00:00", 720), ("2-00", 2880), ("1-12:30", 2190), ("0-00:00:30", 0.5)],
)
def test_times_are_slurms(text: str, minutes: float) -> None:
    assert parse_minutes(text) == pytest.approx(minutes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partitoin": "gpu"}, ["partitoin", "partition"]),
        ({"time": "soon"}, ["hydra.launcher.time", "soon"]),
        ({"time": 1, "signal_seconds": 60}, ["signal_seconds=60"]),
        ({"cpus_per_task": 0}, ["cpus_per_task=0"]),
        ({"mem_gb": -1}, ["mem_gb"]),
        ({"array_parallelism": 0}, ["array_parallelism=0"]),
        ({"sbatch": {"array": "1-3"}}, ["sbatch.array", "remove"]),
        ({"sbatch": {"job_name": "x"}}, ["job_name", "remove"]),
        ({"sbatch": {"partition": "gpu"}}, ["hydra.launcher.partition"]),
        ({"sbatch": {"comment": "a\nrm -rf /"}}, ["one line"]),
        ({"sbatch": {"bad option": 1}}, ["bad option"]),
        ({"setup": [3]}, ["setup", "3"]),
        ({"evaluation": {**NOTHING, "cpus_per_task": 0}}, ["hydra.launcher.evaluation.cpus_per_task=0"]),
        ({"evaluation": {**NOTHING, "time": "soon"}}, ["hydra.launcher.evaluation.time", "soon"]),
        ({"evaluation": {**NOTHING, "gpus_per_node": -1}}, ["hydra.launcher.evaluation.gpus_per_node=-1"]),
        ({"evaluation": {**NOTHING, "gpus": 1}}, ["hydra.launcher.evaluation.gpus", "gpus_per_node"]),
        ({"collecting": {**NOTHING, "time": 1}, "signal_seconds": 60}, ["hydra.launcher.collecting.time=1"]),
    ],
)
def test_mistakes_name_the_key_and_the_remedy(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        read_options(options(**changes))
    for word in words:
        assert word in str(error.value)


def test_script_holds_what_was_asked_for(tmp_path: Path) -> None:
    text = script(
        tmp_path,
        partition="gpu",
        account="me",
        qos="long",
        constraint="a100",
        mem_gb=1.5,
        cpus_per_task=8,
        array_parallelism=2,
        sbatch={"mail-type": "FAIL", "exclusive": True, "reservation": None, "nice": 5},
        setup=["module load cuda"],
    )
    for line in (
        "#SBATCH --array=0-2%2",
        "#SBATCH --partition=gpu",
        "#SBATCH --account=me",
        "#SBATCH --qos=long",
        "#SBATCH --constraint=a100",
        "#SBATCH --mem=1536M",
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --nodes=2",
        "#SBATCH --signal=B:USR2@120",
        "#SBATCH --requeue",
        "#SBATCH --mail-type=FAIL",
        "#SBATCH --exclusive",
        "#SBATCH --nice=5",
        "module load cuda",
        "export A='b c'",
    ):
        assert line in text.splitlines()
    assert "reservation" not in text
    assert "wckey" not in text


def test_one_run_is_a_job_named_by_its_run(tmp_path: Path) -> None:
    text = script(tmp_path, tasks=1)
    assert "--array" not in text
    assert "#SBATCH --job-name=name" in text


def test_values_cannot_break_out_of_the_script(tmp_path: Path) -> None:
    text = script(tmp_path, partition="x; touch /tmp/broken")
    assert "#SBATCH --partition='x; touch /tmp/broken'" in text.splitlines()


@pytest.mark.parametrize(
    ("settings", "asked", "gpus"),
    [
        ({}, None, 0),
        ({"backend": "vllm"}, None, 1),
        ({"backend": "vllm", "tensor_parallel": 4}, None, 4),
        ({"device": "cuda"}, None, 1),
        ({"device": "cpu"}, None, 0),
        ({"backend": "vllm"}, 2, 2),
    ],
)
def test_an_evaluation_asks_for_what_its_backend_uses(settings: dict[str, Any], asked: int | None, gpus: int) -> None:
    found = read_options(options(evaluation={**NOTHING, "gpus_per_node": asked}))
    assert evaluation_resources(found, settings) == Resources(1, gpus)


def test_jobs_after_training_ask_for_their_own() -> None:
    found = read_options(options(time="10:00:00", mem_gb=240, evaluation={**NOTHING, "mem_gb": 64, "time": 30}))
    after = after_training(found, found.evaluation)
    assert (after.mem_gb, after.minutes, after.cpus_per_task) == (64, 30, found.cpus_per_task)
    assert (found.mem_gb, found.minutes) == (240, 600)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_array_ranges_hold_exactly_the_numbers(numbers: set[int]) -> None:
    found: list[int] = []
    for part in _ranges(sorted(numbers)).split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    assert found == sorted(numbers)

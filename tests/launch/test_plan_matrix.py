"""What a dry run says, and that it says only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from store_configs import small_config

from harness.config import RunConfig, run_id
from harness.launch import pool
from harness.launch.plan_matrix import StepTimes
from harness.store import RunStore

MakeRun = Callable[..., RunConfig]


def dry_run(configs: list[RunConfig], store: RunStore, capsys: pytest.CaptureFixture[str]) -> str:
    assert pool.dry_run(configs, store=store, options={"workers": 2}) == 0
    return capsys.readouterr().out


def train(store: RunStore, config: RunConfig, steps: int, seconds: float) -> None:
    run = store.create(config)
    with run.lock("test"):
        run.begin_attempt({})
        for step in range(1, steps + 1):
            run.metrics.append(step, {"seconds": seconds})
        if steps == config.training.steps:
            run.write_evaluation("pocket", steps, {"n": 1, "metrics": {}})
        run.end_attempt("interrupted")


def test_nothing_is_created(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    configs = [small_config(seed=seed, steps=100) for seed in range(3)]
    text = dry_run(configs, store, capsys)
    assert text.splitlines()[:3] == [f"new         {run_id(config)}" for config in configs]
    assert f"3 runs in {store.root}: 3 new" in text
    assert "left: 300 steps, about 6 min of one core (estimated, not measured yet), 3 min on 2 workers" in text
    assert not store.root.exists()


def test_step_times_are_measured_on_past_runs(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    done, half, new = (small_config(seed=seed, steps=100) for seed in range(3))
    train(store, done, 100, 4.0)
    train(store, half, 40, 4.0)
    text = dry_run([done, half, new], store, capsys)
    assert "1 new, 1 interrupted, 1 done" in text
    assert "left: 160 steps, about 11 min of one core (measured), 5 min on 2 workers" in text
    assert "attempt 1 stopped: asked to stop, step 40 of 100" in text
    times = StepTimes(store)
    assert times.of(new) == (4.0, "measured")
    assert times.of(small_config(task="maths")) == (1.2, "estimate")
    assert times.of(small_config(engine="verl")) == (None, "unknown")


def test_a_finished_matrix_costs_nothing(store: RunStore, capsys: pytest.CaptureFixture[str]) -> None:
    config = small_config()
    train(store, config, 5, 1.0)
    assert "nothing is left to do" in dry_run([config], store, capsys)


def test_a_damaged_run_is_said_and_measures_nothing(
    store: RunStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = small_config()
    train(store, config, 3, 1.0)
    store.create(config).manifest.path.write_text("{")
    text = dry_run([config], store, capsys)
    assert text.startswith("damaged     ")
    assert "manifest.json: no valid JSON" in text

"""The closing table's numbers, by hand."""

from __future__ import annotations

import io
import math
from collections.abc import Callable

import pytest
from rich.console import Console
from store_configs import small_config

from harness.config import RunConfig
from harness.launch.closing import print_closing, reached, watched_channel
from harness.launch.labels import labels
from harness.store import RunStore

MakeRun = Callable[..., RunConfig]


def rows(format_rewards: list[float], densities: list[float | None] | None = None) -> list[dict[str, object]]:
    densities = densities or [None] * len(format_rewards)
    return [
        {"step": step, "reward/format": value, "reward/correctness": -float(step), "density/format": density}
        for step, (value, density) in enumerate(zip(format_rewards, densities, strict=True), start=1)
    ]


def test_crossing_final_and_peak() -> None:
    result = reached(rows([0.1, 0.8, 0.7, 0.9, 1.0, 1.0], [0.1, 0.5, 0.5, 0.2, None, 0.0]), small_config())
    assert result.crossing == 2
    assert result.final["format"] == pytest.approx((0.8 + 0.7 + 0.9 + 1.0 + 1.0) / 5)
    assert result.final["correctness"] == pytest.approx(-4.0)
    assert (result.peak, result.peak_step) == (0.5, 2)


def test_never_reached_and_nothing_logged() -> None:
    result = reached(rows([0.1, 0.799999]), small_config())
    assert result.crossing is None
    assert result.peak is None
    empty = reached([], small_config())
    assert (empty.crossing, empty.peak, empty.final) == (None, None, {"correctness": None, "format": None})


def test_nan_is_neither_a_crossing_nor_a_peak() -> None:
    result = reached(rows([math.nan, 0.9], [math.nan, 0.3]), small_config())
    assert (result.crossing, result.peak, result.final["format"]) == (2, 0.3, 0.9)


def test_maths_watches_the_length_at_099() -> None:
    config = small_config(task="maths")
    assert watched_channel(config) == "length"
    logged = [{"step": step, "reward/length": value} for step, value in ((1, 0.989), (2, 0.99))]
    assert reached(logged, config).crossing == 2


def closing(store: RunStore, configs: list[RunConfig]) -> str:
    text = io.StringIO()
    print_closing(configs, store, Console(file=text, width=160))
    return text.getvalue()


def finish(store: RunStore, config: RunConfig, rewards: list[float]) -> None:
    run = store.create(config)
    with run.lock("test"):
        run.begin_attempt({})
        for row in rows(rewards, [0.25] * len(rewards)):
            run.metrics.append(int(str(row.pop("step"))), row)  # type: ignore[arg-type]


def test_several_seeds_are_summed_up_and_unfinished_ones_are_counted_out(store: RunStore) -> None:
    configs = [small_config(seed=seed) for seed in range(3)]
    finish(store, configs[0], [0.0, 0.9, 0.9, 0.9, 0.9])
    finish(store, configs[1], [0.0, 0.0, 0.0, 0.9, 0.9])
    finish(store, configs[2], [0.0, 0.0])
    text = closing(store, configs)
    assert "proves nothing" not in text
    summary = next(line for line in text.splitlines() if "of 3" in line)
    assert summary.split() == ["gdpo", "2", "of", "3", "2/2", "3", "-3.000", "0.540", "0.250"]
    assert "2/5" in text
    assert str(store.root / store.runs()[2].run_id) in text


def test_what_holds_grpo_back_is_named(store: RunStore) -> None:
    configs = [small_config(method="grpo"), small_config(method="gdpo"), small_config(method="dr_grpo")]
    finish(store, configs[0], [0.0] * 5)
    finish(store, configs[1], [0.0, 0.8, 0.9, 0.9, 0.9])
    finish(store, configs[2], [0.0, 0.0, 0.0, 0.9, 0.9])
    hint = "grpo: no format here because of the KL term in the reward"
    text = closing(store, configs)
    assert f"\n{hint}" in text
    assert "training.reward_kl_methods=none" in text
    assert hint not in closing(store, configs[:1])
    assert hint not in closing(store, configs[1:])


def test_a_damaged_metrics_log_warns_and_the_rest_is_shown(store: RunStore) -> None:
    config = small_config()
    finish(store, config, [0.1, 0.2, 0.9, 0.9, 0.9])
    path = store.runs()[0].metrics.path
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "{[red]", *lines[2:]]) + "\n")
    text = closing(store, [config])
    assert "warning: " in text
    assert "metrics.jsonl, line 2" in text
    assert "5/5" in text


def test_tables_for_tasks_with_other_channels(store: RunStore) -> None:
    configs = [small_config(), small_config(task="maths")]
    finish(store, configs[0], [0.9] * 5)
    text = closing(store, configs)
    assert "format >= 0.8" in text
    assert "gdpo" in text


def test_labels_name_the_keys_that_differ() -> None:
    assert list(labels([small_config(), small_config(seed=1)]).values()) == [
        {"method": "gdpo", "seed": "0"},
        {"method": "gdpo", "seed": "1"},
    ]
    assert list(labels([small_config(), small_config(method="dara_asym"), small_config(steps=7)]).values()) == [
        {"method": "gdpo", "seed": "0", "training.steps": "5"},
        {"method": "dara_asym", "seed": "0", "training.steps": "5"},
        {"method": "gdpo", "seed": "0", "training.steps": "7"},
    ]
    assert [row["task"] for row in labels([small_config(), small_config(task="maths")]).values()] == [
        "tool_calling",
        "maths",
    ]

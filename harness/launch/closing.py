"""The table that ends a matrix: what each run reached, from its metrics log alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.labels import labels
from harness.store import Run, RunStore

THRESHOLDS = {"format": 0.8, "length": 0.99}
"""The channel that is watched (the first of these a task has), and the mean training reward that counts as learnt."""

FINAL_STEPS = 5
"""Final rewards are means over this many last steps."""


@dataclass(frozen=True)
class Reached:
    """What one run reached. None where it did not, or where nothing was logged."""

    crossing: int | None
    final: Mapping[str, float | None]
    peak: float | None
    peak_step: int | None


def watched_channel(config: RunConfig) -> str | None:
    return next((name for name in THRESHOLDS if name in config.task.channels), None)


def reached(rows: Sequence[Mapping[str, Any]], config: RunConfig) -> Reached:
    """First step at which the watched channel's mean reward is at least its threshold, mean rewards of the last
    ``FINAL_STEPS`` steps, and the highest density of the watched channel with the first step that has it."""
    channel = watched_channel(config)
    crossing = peak = peak_step = None
    if channel is not None:
        rewards = [(row["step"], _number(row.get(f"reward/{channel}"))) for row in rows]
        crossing = next((step for step, value in rewards if value >= THRESHOLDS[channel]), None)
        densities = [(row["step"], _number(row.get(f"density/{channel}"))) for row in rows]
        known = [(step, value) for step, value in densities if not math.isnan(value)]
        if known:
            peak_step, peak = max(known, key=lambda pair: (pair[1], -pair[0]))
    last = rows[-FINAL_STEPS:]
    final = {name: _mean([_number(row.get(f"reward/{name}")) for row in last]) for name in config.task.channels}
    return Reached(crossing, final, peak, peak_step)


def print_closing(configs: Sequence[RunConfig], store: RunStore, console: Console) -> None:
    """One table per set of channels; a run without metrics has dashes."""
    by_channels: dict[tuple[str, ...], list[RunConfig]] = {}
    for config in configs:
        by_channels.setdefault(tuple(config.task.channels), []).append(config)
    for channels, members in by_channels.items():
        console.print()
        _print_table(members, channels, store, console)
    if len({config.seed for config in configs}) == 1:
        console.print(
            f"One seed (seed {configs[0].seed}) proves nothing: runs differ between seeds; seed=0,1,2,3,4 runs five."
        )


def _print_table(configs: Sequence[RunConfig], channels: Sequence[str], store: RunStore, console: Console) -> None:
    watched = watched_channel(configs[0])
    names = labels(configs)
    table = Table(title=f"after {_steps(configs)} steps; final: mean of the last {FINAL_STEPS}", title_justify="left")
    columns = list(next(iter(names.values())))
    for name in columns:
        table.add_column(name, overflow="fold")
    if watched is not None:
        table.add_column(f"first step with\n{watched} >= {THRESHOLDS[watched]:g}", justify="right")
    for channel in channels:
        table.add_column(f"final\n{channel}", justify="right")
    if watched is not None:
        table.add_column(f"peak density\nof {watched} (step)", justify="right")
    folders: list[str] = []
    for config in configs:
        run = store.find(config)
        if run is None:
            continue
        values = reached(_rows(run, console), config)
        cells = [escape(text) for text in names[run.run_id].values()]
        if watched is not None:
            cells.append("-" if values.crossing is None else str(values.crossing))
        cells += [_text(values.final[channel]) for channel in channels]
        if watched is not None:
            cells.append("-" if values.peak is None else f"{values.peak:.3f} ({values.peak_step})")
        table.add_row(*cells)
        folders.append(str(run.path))
    console.print(table)
    for folder in folders:
        console.print(f"  {folder}", soft_wrap=True, markup=False)


def _rows(run: Run, console: Console) -> list[dict[str, Any]]:
    try:
        return run.metrics.rows()
    except UserError as error:
        console.print(f"warning: {error}", soft_wrap=True, markup=False, style="yellow")
        return run.metrics.read().rows


def _steps(configs: Sequence[RunConfig]) -> str:
    return ", ".join(str(steps) for steps in sorted({config.training.steps for config in configs}))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

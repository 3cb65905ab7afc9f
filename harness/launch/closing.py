"""The table that ends a matrix: what each run reached, from its metrics log alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.config import RunConfig
from harness.engines.reward_kl import sees_reward_kl
from harness.errors import UserError
from harness.launch.labels import labels
from harness.store import Run, RunStore

THRESHOLDS = {"format": 0.8, "length": 0.99}
"""The channel that is watched (the first of these a task has), and the mean training reward that counts as learnt."""

FINAL_STEPS = 5
"""Final rewards are means over this many last steps."""


@dataclass(frozen=True)
class Reached:
    """What one run reached after ``step`` steps. None where it did not, or where nothing was logged."""

    step: int
    crossing: int | None
    final: Mapping[str, float | None]
    peak: float | None
    peak_step: int | None


@dataclass(frozen=True)
class _Line:
    """A run of the table; ``label`` maps the columns that tell it from the others to their text."""

    config: RunConfig
    label: Mapping[str, str]
    reached: Reached

    @property
    def complete(self) -> bool:
        return self.reached.step >= self.config.training.steps


_Key = tuple[tuple[str, str], ...]


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
    return Reached(rows[-1]["step"] if rows else 0, crossing, final, peak, peak_step)


def print_closing(configs: Sequence[RunConfig], store: RunStore, console: Console) -> None:
    """A table of the runs for each set of channels, one of the methods where there are several seeds, the folders."""
    by_channels: dict[tuple[str, ...], list[RunConfig]] = {}
    for config in configs:
        by_channels.setdefault(tuple(config.task.channels), []).append(config)
    folders: list[str] = []
    held_back: set[str] = set()
    for members in by_channels.values():
        found = [(config, run) for config in members if (run := store.find(config)) is not None]
        if not found:
            continue
        names = labels([config for config, _ in found])
        lines = [_Line(config, names[run.run_id], reached(_rows(run, console), config)) for config, run in found]
        console.print()
        _print_runs(lines, console)
        groups = _by_method(lines)
        if len(groups) < len(lines):
            console.print()
            _print_methods(groups, console)
        folders += [str(run.path) for _, run in found]
        held_back |= _held_back(lines)
    console.print()
    if held_back:
        console.print(
            f"{', '.join(sorted(held_back))}: no format here because of the KL term in the reward (docs/pocket.md); "
            "training.reward_kl_methods=none runs without it.",
            soft_wrap=True,
        )
    for folder in folders:
        console.print(folder, soft_wrap=True, markup=False)
    if len({config.seed for config in configs}) == 1:
        console.print(
            f"One seed (seed {configs[0].seed}) proves nothing: runs differ between seeds; seed=0,1,2,3,4 runs five.",
            soft_wrap=True,
        )


def _held_back(lines: Sequence[_Line]) -> set[str]:
    """Methods of finished pocket runs that had the KL term in their reward and never learnt the format, where another
    method learnt it in at most half of the steps."""
    pocket = [line for line in lines if line.config.scale == "pocket" and watched_channel(line.config) == "format"]
    without = [line for line in pocket if not sees_reward_kl(line.config)]
    if not any(2 * (line.reached.crossing or math.inf) <= line.config.training.steps for line in without):
        return set()
    missed = [line for line in pocket if line.complete and line.reached.crossing is None]
    return {line.config.method.name for line in missed if sees_reward_kl(line.config)}


def _print_runs(lines: Sequence[_Line], console: Console) -> None:
    watched = watched_channel(lines[0].config)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in lines[0].label:
        table.add_column(name, overflow="fold")
    table.add_column("step", justify="right")
    _add_value_columns(table, lines[0].config, "(step)")
    for line in lines:
        values = line.reached
        cells = [*map(escape, line.label.values()), f"{values.step}/{line.config.training.steps}"]
        if watched is not None:
            cells.append("-" if values.crossing is None else str(values.crossing))
        cells += [_text(value) for value in values.final.values()]
        if watched is not None:
            cells.append("-" if values.peak is None else f"{values.peak:.3f} ({values.peak_step})")
        table.add_row(*cells, style="" if line.complete else "dim")
    console.print(table)


def _print_methods(groups: Mapping[_Key, Sequence[_Line]], console: Console) -> None:
    """Over the finished seeds of each method: how many reached the threshold, and medians (of the first step: over
    those that did)."""
    config = next(iter(groups.values()))[0].config
    watched = watched_channel(config)
    title = "medians over seeds (first step: over those that reached it)"
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left")
    for name in (*(column for column, _ in next(iter(groups))), "seeds"):
        table.add_column(name)
    if watched is not None:
        table.add_column("reached", justify="right")
    _add_value_columns(table, config, "")
    for key, members in groups.items():
        values = [line.reached for line in members if line.complete]
        crossings = [item.crossing for item in values if item.crossing is not None]
        cells = [*(escape(text) for _, text in key), _seeds(len(values), len(members))]
        if watched is not None:
            cells.append(f"{len(crossings)}/{len(values)}")
            cells.append(f"{statistics.median(crossings):g}" if crossings else "-")
        cells += [_median([item.final[channel] for item in values]) for channel in config.task.channels]
        if watched is not None:
            cells.append(_median([item.peak for item in values]))
        table.add_row(*cells)
    console.print(table)


def _seeds(finished: int, all_of_them: int) -> str:
    return str(finished) if finished == all_of_them else f"{finished} of {all_of_them}"


def _add_value_columns(table: Table, config: RunConfig, beside_peak: str) -> None:
    watched = watched_channel(config)
    if watched is not None:
        table.add_column(f"first step with\n{watched} >= {THRESHOLDS[watched]:g}", justify="right")
    for channel in config.task.channels:
        table.add_column(f"{channel},\nlast {FINAL_STEPS} steps", justify="right")
    if watched is not None:
        table.add_column(f"peak density\nof {watched} {beside_peak}", justify="right")


def _by_method(lines: Sequence[_Line]) -> dict[_Key, list[_Line]]:
    """Runs that differ in their seed alone, by the rest of their label."""
    groups: dict[_Key, list[_Line]] = {}
    for line in lines:
        key = tuple((column, text) for column, text in line.label.items() if column != "seed")
        groups.setdefault(key, []).append(line)
    return groups


def _rows(run: Run, console: Console) -> list[dict[str, Any]]:
    try:
        return run.metrics.rows()
    except UserError as error:
        console.print(f"warning: {error}", soft_wrap=True, markup=False, style="yellow")
        return run.metrics.read().rows


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return _text(statistics.median(known) if known else None)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"

"""What a user sees while runs train: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from harness.config import RunConfig, run_id
from harness.launch.evaluation_tasks import EvaluationTask
from harness.launch.labels import labels
from harness.launch.wanted_evaluations import stored_steps
from harness.store import Run

_PLAIN_SECONDS = 15.0
_READ_SECONDS = 0.5
_RECENT = 12


@dataclass
class _Active:
    """A run in training, as its metrics log shows it. ``first`` is the step and time at which it was first seen."""

    run: Run
    config: RunConfig
    started: float
    step: int
    row: Mapping[str, Any] = field(default_factory=dict)
    first: tuple[int, float] | None = None
    read: float = 0.0
    said: float = 0.0

    def update(self, now: float) -> None:
        if now - self.read < _READ_SECONDS:
            return
        self.read = now
        row = self.run.metrics.last_row()
        if row is None or row["step"] == self.step:
            return
        if self.first is None:
            self.first = (row["step"], now)
        self.step, self.row = row["step"], row

    def seconds_left(self, now: float) -> float | None:
        """From the pace seen so far; None before two steps were seen."""
        left = self.config.training.steps - self.step
        if self.first is not None and self.step > self.first[0]:
            return left * (now - self.first[1]) / (self.step - self.first[0])
        seconds = self.row.get("seconds")
        return left * seconds if isinstance(seconds, int | float) and math.isfinite(seconds) else None


class Progress:
    """``with Progress(...) as progress``: tell it what starts and ends, and call ``tick`` often."""

    def __init__(
        self, configs: Sequence[RunConfig], console: Console, *, workers: int, waiting: int | None = None
    ) -> None:
        """``waiting``: how many of them are to be trained (None: all)."""
        self._console = console
        self._labels = labels(configs)
        self._configs = {run_id(config): config for config in configs}
        self._waiting = len(configs) if waiting is None else waiting
        self._evaluations: dict[str, tuple[EvaluationTask, float]] = {}
        self._workers = workers
        self._active: dict[str, _Active] = {}
        self._ended: list[tuple[str, str]] = []
        self._pace: list[float] = []
        self._live = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else None
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *unused: object) -> None:
        if self._live is not None:
            self._live.update(Text(""), refresh=True)
            self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """A line above the table."""
        self._console.print(Text(text, style=style), soft_wrap=True)

    def started(self, run: Run) -> None:
        self._waiting -= 1
        step = run.metrics.last_step()
        self._active[run.run_id] = _Active(run, self._configs[run.run_id], time.monotonic(), step)
        if self._live is None:
            done = f", continues from its last checkpoint (it had reached step {step})" if step else ""
            self.say(f"start  {self._name(run.run_id)}{done}")

    def ended(self, run: Run, state: str, reason: str) -> None:
        active = self._active.pop(run.run_id)
        if state == "done":
            self._pace.append(time.monotonic() - active.started)
        self._ended.append((run.run_id, state))
        if state == "done":
            if self._live is None:
                self.say(f"done   {self._name(run.run_id)}")
        else:
            self.say(f"{state}: {self._name(run.run_id)}: {reason}", "red" if state == "failed" else "yellow")
            if state == "failed":
                self.say(f"        log: {run.log_path}", "dim")

    def evaluating(self, task: EvaluationTask) -> None:
        self._evaluations[task.name] = (task, time.monotonic())
        if self._live is None:
            steps = ", ".join(map(str, task.wanted.steps))
            self.say(f"start  {self._name(task.run.run_id)}: evaluation on {task.wanted.name}, step {steps}")

    def evaluated(self, task: EvaluationTask, state: str, reason: str) -> None:
        _, started = self._evaluations.pop(task.name)
        name = f"{self._name(task.run.run_id)}: evaluation on {task.wanted.name}"
        if state == "done":
            self.say(f"done   {name}, {_duration(time.monotonic() - started)}")
            return
        self.say(f"{state}: {name}: {reason}", "red" if state == "failed" else "yellow")
        if state == "failed":
            self.say(f"        log: {task.log_path}", "dim")

    def tick(self) -> None:
        now = time.monotonic()
        for active in self._active.values():
            active.update(now)
        if self._live is None:
            for active in self._active.values():
                self._plain(active, now)
        elif now - self._drawn > _READ_SECONDS:
            self._drawn = now
            self._live.update(self._table(now), refresh=True)

    def _plain(self, active: _Active, now: float) -> None:
        if now - max(active.said, active.started) < _PLAIN_SECONDS:
            return
        active.said = now
        rewards = "  ".join(
            f"{channel} {_number(active.row.get(f'reward/{channel}'))}" for channel in active.config.task.channels
        )
        self.say(
            f"       {self._name(active.run.run_id)}  step {active.step}/{active.config.training.steps}  {rewards}"
            f"  ETA {_duration(active.seconds_left(now))}"
        )

    def _table(self, now: float) -> Group:
        table = Table(box=None, pad_edge=False)
        channels = list(dict.fromkeys(name for config in self._configs.values() for name in config.task.channels))
        columns = list(next(iter(self._labels.values())))
        for name in (*columns, "step", *channels, "ETA"):
            table.add_column(name, justify="left" if name in columns else "right")
        for name, state in self._ended[-_RECENT:]:
            table.add_row(*map(escape, self._labels[name].values()), state, *("" for _ in channels), "", style="dim")
        for name, active in self._active.items():
            table.add_row(
                *map(escape, self._labels[name].values()),
                f"{active.step}/{active.config.training.steps}",
                *(_number(active.row.get(f"reward/{channel}")) for channel in channels),
                _duration(active.seconds_left(now)),
            )
        for task, started in self._evaluations.values():
            stored, _ = stored_steps(task.run, task.wanted)
            table.add_row(
                *map(escape, self._labels[task.run.run_id].values()),
                f"{task.wanted.name} {len(stored)}/{len(task.wanted.steps)}",
                *("" for _ in channels),
                _duration(_left(now - started, len(stored), len(task.wanted.steps))),
            )
        done = sum(state == "done" for _, state in self._ended)
        bad = len(self._ended) - done
        summary = f"{done} done, {len(self._active)} running, {self._waiting} waiting" + (f", {bad} not" if bad else "")
        summary += f", {len(self._evaluations)} evaluated now" if self._evaluations else ""
        return Group(table, Text(f"{summary}; ETA of all {_duration(self._all_left(now))}", style="bold"))

    def _all_left(self, now: float) -> float | None:
        """Runs in training, then the waiting ones in turns of ``workers``, at the pace of those seen."""
        lefts = [active.seconds_left(now) for active in self._active.values()]
        known = [left for left in lefts if left is not None]
        if not known and not self._pace:
            return None
        totals = self._pace or [
            now - active.started + left
            for active, left in zip(self._active.values(), lefts, strict=True)
            if left is not None
        ]
        per_run = sum(totals) / len(totals)
        return max(known, default=0.0) + per_run * self._waiting / self._workers

    def _name(self, name: str) -> str:
        row = self._labels[name]
        return " ".join([row["method"], *(f"{key}={value}" for key, value in row.items() if key != "method")])


def _left(seconds: float, done: int, total: int) -> float | None:
    return seconds / done * (total - done) if done else None


def _number(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, int | float) and not isinstance(value, bool) else "-"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

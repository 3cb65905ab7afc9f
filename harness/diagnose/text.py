"""The diagnosis on a terminal: plain tables, nothing from the log that could steer it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from harness.diagnose.findings import findings, percent
from harness.diagnose.measure import ChannelStep
from harness.diagnose.report import Diagnosis

STEPS_SHOWN = 12
STEP_HEADER = (
    *("step", "channel", "mean", "density", "energy", "share", "all low", "all high", "const", "success", "expected"),
    *("alike", "omega", "cap"),
)


def clean(text: str) -> str:
    """Without characters that a terminal would act on."""
    return "".join(char if char.isprintable() else "?" for char in text)


def number(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"


def step_cells(step: str, channel: str, found: ChannelStep) -> list[str]:
    """One row of the table of steps, in the order of :data:`STEP_HEADER`."""
    shares = (found.all_low, found.all_high, found.same + found.too_few)
    return [
        step,
        channel,
        number(found.mean),
        percent(found.density),
        f"{found.energy:.6g}",
        percent(found.energy_share),
        *map(percent, shares),
        percent(found.success),
        percent(found.expected),
        percent(found.alike),
        number(found.weight, 2),
        "yes" if found.cap_hit else "",
    ]


def lines(found: Diagnosis, *, all_steps: bool) -> Iterator[str]:
    for line in _lines(found, all_steps):
        yield clean(line)


def _lines(found: Diagnosis, all_steps: bool) -> Iterator[str]:
    yield from reading_lines(found)
    for warning in found.warnings:
        yield f"  warning: {warning}"
    yield ""
    shown = shown_steps(found, all_steps)
    rows = []
    for place in shown:
        report = found.steps[place]
        for channel in found.channels:
            rows.append(step_cells(str(report.step), channel, report.channels[channel]))
    yield from table(STEP_HEADER, rows, left=(1,))
    if len(shown) < len(found.steps):
        yield f"{len(shown)} of {len(found.steps)} steps are shown (--all-steps; --csv FILE for every number)"
    yield from (f"  {line}" for line in LEGEND)
    yield ""
    yield from table(GROUP_HEADER, group_rows(found, shown), left=())
    yield ""
    yield (
        f"Replay: every method on the same batches, final normalisation over the batch by {found.normalization} "
        "where the method has one"
    )
    yield from table(replay_header(found), replay_rows(found), left=(0,))
    for item in found.replays:
        if item.skipped:
            yield f"  {item.method.name}: not run, {item.skipped}"
    yield ""
    yield "Findings"
    for line in findings(found):
        yield f"  * {line}"


LEGEND = (
    "density: share of groups in which the channel varies. share: of the advantage energy of all channels (gdpo).",
    "all low, all high: groups in which every reward is the lowest, the highest (declared with --bounds, else seen).",
    "const: other groups without variation. For a channel of two values, success: responses at the highest value;",
    "expected: density at each group's own success rate (on the low side, for rates of few responses); alike: if all",
    "prompts had the step's rate. omega: DARA's weight; cap: whether w_max cuts it.",
)
GROUP_HEADER = ("step", "responses", "groups", "sizes", "conflict", "sum filter drops", "of them a channel varies")


def reading_lines(found: Diagnosis) -> Iterator[str]:
    log = found.log
    columns = log.columns
    groups = int(found.total(lambda s: s.groups))
    files = "1 file" if len(log.sources) == 1 else f"{len(log.sources)} files"
    steps = f"{len(found.steps)} step" + ("s" if len(found.steps) > 1 else "")
    yield f"{len(log.rows):,} responses in {groups:,} groups, {steps}, from {files} (read as {columns.format})"
    yield f"  group     {columns.group}" + (" (the prompt)" if columns.by_prompt else "")
    yield f"  step      {columns.step or ('the name of the file' if log.has_steps else 'none')}"
    yield f"  channels  {', '.join(columns.channels)}"
    if columns.attempt:
        yield f"  attempt   {columns.attempt}"
    if columns.length:
        yield f"  tokens    {columns.length}"
    if columns.advantage:
        yield f"  logged advantages  {columns.advantage}"
    for name, why in columns.not_taken.items():
        yield f"  not a channel: {name} ({why})"


def shown_steps(found: Diagnosis, all_steps: bool) -> list[int]:
    count = len(found.steps)
    if all_steps or count <= STEPS_SHOWN:
        return list(range(count))
    return sorted({round(place) for place in np.linspace(0, count - 1, STEPS_SHOWN)})


def group_rows(found: Diagnosis, shown: Sequence[int]) -> list[list[str]]:
    rows = []
    for place in shown:
        step = found.steps[place]
        low, high = step.sizes
        rows.append(
            [
                str(step.step),
                f"{step.responses:,}",
                f"{step.groups:,}",
                str(low) if low == high else f"{low} to {high}",
                percent(step.conflict),
                f"{step.dropped:,}",
                f"{step.hidden:,}",
            ]
        )
    return rows


def replay_header(found: Diagnosis) -> list[str]:
    header = ["method", "r with gdpo"]
    if any(not math.isnan(item.with_logged.correlation) for item in found.replays):
        header.append("r with log")
    header += ["sign flips", "silenced"]
    header += [f"weight {name}" for name in found.channels]
    header += [f"mass {name}" for name in found.channels]
    return header


def replay_rows(found: Diagnosis) -> list[list[str]]:
    rows = []
    logged = "r with log" in replay_header(found)
    for item in found.replays:
        if item.skipped or not item.responses:
            continue
        row = [item.method.name, number(item.with_base.correlation, 4)]
        if logged:
            row.append(number(item.with_logged.correlation, 4))
        row += [percent(item.flipped / item.responses), percent(item.silenced / item.responses)]
        row += [number(value, 2) for value in item.mean_weights.tolist()]
        row += [percent(value) for value in item.mass_share.tolist()]
        rows.append(row)
    return rows


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> Iterator[str]:
    """Aligned columns; ``left`` ones to the left, the others to the right."""
    widths = [max(len(row[place]) for row in [header, *rows]) for place in range(len(header))]
    for row in [header, *rows]:
        cells = [
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()

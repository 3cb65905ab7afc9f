"""What a study will cost, before it starts: runs, GPU hours, storage, and how long it takes at least.

    python -m harness plan study=tool_calling_main
    python -m harness plan study=maths_main --at-once 4 --partition gpu --gpu-hours 5000

Takes the same keys as `python harness/run.py -m`. Step times are those measured in the folder of the runs; before there
are any, the paper's. Nothing is submitted or written.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.slurm.options import parse_minutes
from harness.launch.slurm.planning import Cost, costs, makespan, requeues
from harness.launch.slurm.queue import NoAnswerError
from harness.launch.slurm.queue import run as call
from harness.store import RunStore

_WIDTH = 160


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("overrides", nargs="+", metavar="key=value", help="as for harness/run.py, e.g. study=NAME")
    parser.add_argument("--at-once", type=int, metavar="N", help="runs at the same time (default: all)")
    parser.add_argument("--partition", help="check the runs against this partition of the cluster")
    parser.add_argument(
        "--gpu-hours", type=float, metavar="HOURS", help="warn where this budget does not hold the study"
    )


def main(args: argparse.Namespace) -> int:
    """0: the study fits, as far as is known; 1: it does not, and why."""
    if args.at_once is not None and args.at_once < 1:
        raise UserError(f"--at-once {args.at_once} must be at least 1")
    configs = _compose(args.overrides)
    found = costs(configs, RunStore(configs[0].output.runs))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH)
    console.print(_table(found))
    _print_totals(found, args.at_once, console)
    warnings = _warnings(found, args)
    for warning in warnings:
        console.print(f"warning: {warning}", style="yellow", soft_wrap=True, markup=False)
    return 1 if warnings else 0


def _compose(overrides: Sequence[str]) -> list[RunConfig]:
    from hydra.core.global_hydra import GlobalHydra

    from harness.compose import composing
    from harness.matrix import expand, unique_runs

    with composing() as composer:
        rows = expand(list(overrides), GlobalHydra.instance().config_loader())
        configs, _ = unique_runs(rows, composer)
    if not configs:
        raise UserError("no runs: the matrix is empty")
    return configs


def _table(found: Sequence[Cost]) -> Table:
    groups: dict[tuple[str, str, int], list[Cost]] = defaultdict(list)
    for cost in found:
        groups[cost.config.task.name, cost.config.model.name, cost.gpus].append(cost)
    table = Table("task", "model", "GPUs", "runs", "done", "h a run", "from", "GPU hours left", "checkpoints", box=None)
    for (task, model, gpus), members in groups.items():
        left = [cost for cost in members if cost.state != "done"]
        hours = [cost.hours for cost in left if cost.hours is not None]
        total = _sum([cost.gpu_hours for cost in left])
        table.add_row(
            task,
            model,
            str(gpus) if gpus else "CPU",
            str(len(members)),
            str(len(members) - len(left)),
            "-" if not hours else _hours(max(hours)),
            ", ".join(sorted({cost.source for cost in left})) or "-",
            "unknown" if total is None else f"{total:,.1f}",
            _bytes(_sum([cost.bytes for cost in members])),
        )
    return table


def _print_totals(found: Sequence[Cost], at_once: int | None, console: Console) -> None:
    left = [cost for cost in found if cost.state != "done"]
    hours = [cost.hours for cost in left if cost.hours is not None]
    unknown = len(left) - len(hours)
    gpu_hours = sum(cost.gpu_hours or 0.0 for cost in left if cost.gpus)
    cpu_hours = sum(cost.gpu_hours or 0.0 for cost in left if not cost.gpus)
    parts = [f"{len(found)} runs, {len(left)} left"]
    parts += [f"{gpu_hours:,.1f} GPU hours"] if gpu_hours else []
    parts += [f"{cpu_hours:,.1f} core hours"] if cpu_hours else []
    parts.append(f"checkpoints {_bytes(_sum([cost.bytes for cost in found]))}")
    console.print("; ".join(parts), soft_wrap=True)
    if hours:
        many = "all at once" if at_once is None else f"{at_once} at once"
        total = _hours(makespan(hours, at_once))
        console.print(f"critical path: the longest run, {_hours(max(hours))}; everything {many}: {total}")
    if unknown:
        console.print(
            f"{unknown} runs of a kind that nobody has measured and the paper gives no hours for: not counted"
        )


def _warnings(found: Sequence[Cost], args: argparse.Namespace) -> list[str]:
    left = [cost for cost in found if cost.state != "done"]
    warnings = []
    known = sum(cost.gpu_hours or 0.0 for cost in left if cost.gpus)
    if args.gpu_hours is not None and known > args.gpu_hours:
        warnings.append(f"the study needs {known:,.0f} GPU hours, the budget is {args.gpu_hours:,.0f}")
    if args.partition is not None and left:
        warnings += _partition_warnings(left, args.partition)
    return warnings


def _partition_warnings(left: Sequence[Cost], name: str) -> list[str]:
    try:
        text = call("scontrol", "--oneliner", "show", "partition", name)
    except NoAnswerError as error:
        raise UserError(f"--partition {name}: {error}") from error
    values = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", text))
    warnings = []
    nodes = int(values.get("TotalNodes", "0"))
    gpus = _partition_gpus(name)
    wanted = max(cost.gpus for cost in left)
    if gpus < wanted:
        warnings.append(f"partition {name} has {gpus} GPUs on {nodes} nodes; a run needs {wanted}")
    limit = values.get("MaxTime", "UNLIMITED")
    longest = max((cost.hours for cost in left if cost.hours is not None), default=0.0)
    if limit[:1].isdigit() and longest * 60 > parse_minutes(limit):
        count = requeues(longest, parse_minutes(limit))
        warnings.append(
            f"partition {name} ends jobs after {limit}; the longest run ({_hours(longest)}) is requeued {count} times"
        )
    return warnings


def _partition_gpus(name: str) -> int:
    """GPUs of all nodes of a partition."""
    total = 0
    for line in call("sinfo", "--noheader", "--Node", f"--partition={name}", "--format=%G").splitlines():
        total += sum(int(number) for number in re.findall(r"gpu:(?:[^:,(]+:)?(\d+)", line))
    return total


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _hours(hours: float) -> str:
    return f"{hours:.1f} h" if hours >= 1 else f"{hours * 60:.0f} min"


def _bytes(count: float | None) -> str:
    if count is None:
        return "unknown"
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"

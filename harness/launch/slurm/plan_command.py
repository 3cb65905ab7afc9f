"""What a study will cost, before it starts: runs, GPU hours, storage, and how long it takes at least.

    python -m harness plan study=tool_calling_main
    python -m harness plan study=maths_main --at-once 4 --partition gpu --gpu-hours 5000

Takes the same keys as `python harness/run.py -m`. Times of steps and of evaluations are those measured in the folder
of the runs; before there are any, the paper's. Storage is what stays of checkpoints and exports when all is done.
Nothing is submitted or written.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.slurm.options import parse_minutes
from harness.launch.slurm.planning import Cost, Evaluating, costs, makespan, requeues
from harness.launch.slurm.queue import NoAnswerError
from harness.launch.slurm.queue import run as call
from harness.store import RunStore

_WIDTH = 200


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
    warnings = _warnings(found, args, console)
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
    columns = [
        "task",
        "model",
        "GPUs",
        "runs",
        "done",
        "h a run",
        "from",
        "GPU hours left",
        "evaluations left",
        "h each",
    ]
    table = Table(*columns, "GPU hours", "storage", box=None)
    for (task, model, gpus), members in groups.items():
        left = [cost for cost in members if cost.state != "done"]
        hours = [cost.hours for cost in left if cost.hours is not None]
        evaluations = [item for cost in members for item in cost.evaluations]
        each = [item.hours for item in evaluations if item.left and item.hours is not None]
        table.add_row(
            task,
            model,
            str(gpus) if gpus else "CPU",
            str(len(members)),
            str(len(members) - len(left)),
            "-" if not hours else _hours(max(hours)),
            ", ".join(sorted({cost.source for cost in left})) or "-",
            _number(_sum([cost.gpu_hours for cost in left])),
            f"{sum(item.left for item in evaluations)} of {sum(item.total for item in evaluations)}"
            if evaluations
            else "-",
            "-" if not evaluations else _hours(max(each)) if each else "unknown",
            "-" if not evaluations else _number(_evaluation_hours(evaluations)),
            _bytes(_sum([cost.bytes for cost in members])),
        )
    return table


def _evaluation_hours(evaluations: Iterable[Evaluating]) -> float | None:
    """GPU hours (processor hours where there are no GPUs) of what is left; None: something is unknown."""
    return _sum(
        [
            None if item.hours is None else item.hours * item.left * max(item.gpus, 1)
            for item in evaluations
            if item.left
        ]
    )


def _print_totals(found: Sequence[Cost], at_once: int | None, console: Console) -> None:
    left = [cost for cost in found if cost.state != "done"]
    unknown = [cost for cost in left if cost.hours is None]
    evaluations = [item for cost in found for item in cost.evaluations if item.left]
    unmeasured = sum(item.left for item in evaluations if item.hours is None)
    parts = [f"{len(found)} runs, {len(left)} left"]
    if evaluations:
        parts.append(f"{sum(item.left for item in evaluations)} evaluations left")
    for name, on_gpus in (("GPU", True), ("core", False)):
        training, evaluating = _known_hours(found, on_gpus)
        if training or evaluating:
            split = f" ({training:,.1f} training, {evaluating:,.1f} evaluation)" if evaluating else ""
            parts.append(f"{training + evaluating:,.1f} {name} hours{split}")
    parts.append(f"storage {_bytes(_sum([cost.bytes for cost in found]))} ({_free(found[0].config)})")
    console.print("; ".join(parts), soft_wrap=True)
    chains = [cost.chain_hours for cost in found if cost.chain_hours]
    if chains:
        longest = max((cost for cost in found if cost.chain_hours), key=lambda cost: cost.chain_hours or 0.0)
        many = "all at once" if at_once is None else f"{at_once} at once"
        after = ""
        if any(item.left for item in longest.evaluations):
            hours = longest.evaluation_hours
            after = " and its evaluations" if hours else ", without its evaluations"
        console.print(
            f"critical path: the longest run{after}, {_hours(max(chains))}; "
            f"everything {many}: {_hours(makespan(chains, at_once))}"
        )
    if unknown:
        console.print(
            f"{len(unknown)} runs of a kind that nobody has measured and the paper gives no hours for: not counted"
        )
    if unmeasured:
        console.print(f"{unmeasured} evaluations of a kind that nobody has measured: not counted")


def _free(config: RunConfig) -> str:
    folder = Path(config.output.runs).absolute()
    while not folder.exists():
        folder = folder.parent
    return f"{_bytes(shutil.disk_usage(folder).free)} free below {folder}"


def _known_hours(found: Sequence[Cost], on_gpus: bool) -> tuple[float, float]:
    """(training, evaluation) on GPUs, or on processors alone, as far as known."""
    training = sum(cost.gpu_hours or 0.0 for cost in found if bool(cost.gpus) == on_gpus and cost.state != "done")
    evaluating = sum(
        (item.hours or 0.0) * item.left * max(item.gpus, 1)
        for cost in found
        for item in cost.evaluations
        if bool(item.gpus) == on_gpus
    )
    return training, evaluating


def _warnings(found: Sequence[Cost], args: argparse.Namespace, console: Console) -> list[str]:
    warnings = []
    known = sum(_known_hours(found, True))
    if args.gpu_hours is not None and known > args.gpu_hours:
        warnings.append(f"the study needs {known:,.0f} GPU hours, the budget is {args.gpu_hours:,.0f}")
    left = [cost for cost in found if cost.state != "done" or any(item.left for item in cost.evaluations)]
    if args.partition is not None and left:
        warnings += _partition_warnings(left, args.partition, console)
    return warnings


def _partition_warnings(left: Sequence[Cost], name: str, console: Console) -> list[str]:
    """What the partition does not hold; says besides how long it takes all of it."""
    try:
        text = call("scontrol", "--oneliner", "show", "partition", name)
    except NoAnswerError as error:
        raise UserError(f"--partition {name}: {error}") from error
    values = dict(re.findall(r"(?:^|\s)([A-Za-z]+)=(\S*)", text))
    warnings = []
    nodes = int(values.get("TotalNodes", "0"))
    gpus = _partition_gpus(name)
    wanted = max((cost.gpus for cost in left if cost.state != "done"), default=0)
    wanted = max([wanted, *(item.gpus for cost in left for item in cost.evaluations if item.left)])
    if gpus < wanted:
        warnings.append(f"partition {name} has {gpus} GPUs on {nodes} nodes; a run needs {wanted}")
    elif wanted:
        chains = [cost.chain_hours for cost in left if cost.chain_hours]
        at_once = max(1, gpus // max(1, max(cost.gpus for cost in left)))
        if chains:
            console.print(
                f"partition {name} has {gpus} GPUs: {min(at_once, len(chains))} of {len(chains)} runs at a time, "
                f"{_hours(makespan(chains, at_once))} for all if nobody else computes there",
                soft_wrap=True,
            )
    limit = values.get("MaxTime", "UNLIMITED")
    longest = max((cost.hours for cost in left if cost.hours is not None), default=0.0)
    evaluation = max((cost.evaluation_hours or 0.0 for cost in left), default=0.0)
    for what, hours in (("the longest run", longest), ("the longest evaluation of a run", evaluation)):
        if limit[:1].isdigit() and hours * 60 > parse_minutes(limit):
            count = requeues(hours, parse_minutes(limit))
            warnings.append(
                f"partition {name} ends jobs after {limit}; {what} ({_hours(hours)}) is requeued {count} times"
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


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.1f}"


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

"""``python -m harness COMMAND``: every command that is not training.

Each command lives in a module of its own with two functions, ``configure(parser)`` and ``main(args) -> int``;
the module is imported only when its command is asked for, so that ``--help`` stays quick.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import UserError


@dataclass(frozen=True)
class Command:
    module: str
    summary: str


COMMANDS: dict[str, Command] = {
    "analyse": Command("harness.analysis.analyse_command", "verdicts, learning speed and densities from results/"),
    "cancel": Command("harness.launch.slurm.cancel_command", "cancel the SLURM jobs of runs"),
    "collect": Command("harness.analysis.collect", "runs and published numbers into results/*.parquet"),
    "compare": Command("harness.analysis.compare_command", "two methods on one quantity, with interval, p and power"),
    "conformance": Command("harness.diagnose.conformance", "where verl and TRL, if installed, give other advantages"),
    "verdicts": Command("harness.analysis.verdicts_command", "the paper's claims judged on published and own runs"),
    "data": Command("harness.tasks.data_command", "fetch, verify and list the data sets"),
    "diagnose": Command(
        "harness.diagnose.command", "which reward starves: measure anyone's rollouts, replay every method"
    ),
    "doctor": Command("harness.launch.doctor", "check packages, hardware, data and rewards before a run"),
    "evaluate": Command("harness.evaluation.command", "benchmarks on a checkpoint, a model or an endpoint"),
    "grade": Command("harness.rewards.grade_command", "score responses from a file with the rewards and graders"),
    "logs": Command("harness.launch.slurm.logs_command", "the log of a run, and of its SLURM job"),
    "plan": Command("harness.launch.slurm.plan_command", "runs, GPU hours, storage and duration of a study"),
    "preset": Command("harness.report.preset_command", "how much `dvc repro` runs: smoke, default or extended"),
    "readme": Command("harness.report.readme_command", "README.md's numbers and picture, taken from results/"),
    "report": Command("harness.report.command", "results/report/index.html: one page with everything"),
    "requeue": Command("harness.launch.slurm.requeue_command", "requeue or release the SLURM jobs of runs"),
    "status": Command("harness.store.status_command", "every run, its state and why it is in that state"),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness",
        description="Look at runs, evaluate, analyse. Training starts with `python harness/run.py --help`.",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        subparsers.add_parser(name, help=command.summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 is success, 1 a finding or failed run, 2 a user's mistake, 130 an interrupt."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] not in COMMANDS:
        _parser().parse_args(arguments)
        return 2
    name = arguments[0]
    command = COMMANDS[name]
    module = importlib.import_module(command.module)
    parser = argparse.ArgumentParser(
        prog=f"python -m harness {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.configure(parser)
    try:
        return int(module.main(parser.parse_args(arguments[1:])))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0

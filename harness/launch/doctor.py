"""Checks before a run takes a machine: packages, hardware, data, disk, rewards. Each finding has its remedy.

  python -m harness doctor run=RUN               a run of the store: its folder, or its id with runs=FOLDER
  python -m harness doctor KEY=VALUE ...         the run that these overrides of conf/ describe
  python -m harness doctor TOPIC [KEY=VALUE ...] one topic on its own

Exit code 0: nothing is in the way; 1: something is; 2: a mistake in the command.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.launch.findings import Finding, problems, render

TOPICS: dict[str, str] = {
    "bfcl": "harness.evaluation.bfcl.doctor",
}
"""Topic -> module with ``check(arguments: list[str]) -> list[Finding]``."""

GIGABYTE = 1e9
LEAST_FREE = 1.0
"""Gigabytes that a folder of runs should have free for logs and small checkpoints."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="+", metavar="TOPIC|run=RUN|KEY=VALUE")


def main(args: argparse.Namespace) -> int:
    words = list(args.words)
    if "=" not in words[0]:
        findings = _topic(words[0]).check(words[1:])
    else:
        config, run = _wanted(words)
        print(f"{config.engine.name} on {config.engine.device}: {config.task.name}, {config.model.name}")
        findings = examine(config, run)
    print(render(findings))
    return 1 if problems(findings) else 0


def examine(config: RunConfig, run: Path | None = None) -> list[Finding]:
    """All checks of one run. ``run``: its folder if it exists. Never raises for what it finds."""
    from harness.launch.engine_lookup import find_engine

    module = find_engine(config.engine.name)
    findings = [*_guarded("disk", lambda: [_disk(config, run)]), *_guarded("data", lambda: _data(config))]
    if hasattr(module, "diagnose"):
        findings += _guarded("engine", lambda: module.diagnose(config, run))
    return findings


def _guarded(subject: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    """A check that cannot be made is no reason to keep a run from starting."""
    try:
        return check()
    except UserError as error:
        return [Finding("problem", subject, str(error), "change what is named")]
    except Exception as error:
        text = f"could not be checked ({type(error).__name__}: {' '.join(str(error).split())[:200]})"
        return [Finding("note", subject, text, "look at it yourself if the run fails")]


def require(config: RunConfig, run: Path | None = None) -> list[Finding]:
    """:func:`examine`, with a UserError naming everything that is in the way; what a launcher calls before a job."""
    findings = examine(config, run)
    wrong = problems(findings)
    if wrong:
        text = "; ".join(f"{finding.subject}: {finding.text} -> {finding.remedy}" for finding in wrong)
        raise UserError(f"the run cannot start: {text}")
    return findings


def _topic(name: str) -> Any:
    if name not in TOPICS:
        raise UserError(
            f"doctor has no topic {name!r}: {nearest(name, TOPICS)}; or give run=RUN, or overrides KEY=VALUE"
        )
    try:
        return importlib.import_module(TOPICS[name])
    except ModuleNotFoundError as error:
        raise UserError(f"doctor {name} is not part of this installation ({error})") from error


def _wanted(words: Sequence[str]) -> tuple[RunConfig, Path | None]:
    from harness.store import Run, RunStore

    given = dict(word.partition("=")[::2] for word in words if "=" in word)
    loose = [word for word in words if "=" not in word]
    if loose:
        raise UserError(f"doctor: {loose[0]!r} is no KEY=VALUE")
    if "run" not in given:
        return _composed(list(words)), None
    extra = [key for key in given if key not in ("run", "runs")]
    if extra:
        raise UserError(f"doctor: {extra[0]}= cannot stand beside run=; a stored run has its configuration")
    path = Path(given["run"])
    run = Run(path.resolve()) if path.is_dir() else RunStore(given.get("runs", "runs")).get(given["run"])
    return run.config, run.path


def _composed(overrides: list[str]) -> RunConfig:
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    from harness.compose import CONF, Composer, register_methods

    overrides = register_methods(overrides)
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return Composer(GlobalHydra.instance().config_loader()).compose(overrides)


def _disk(config: RunConfig, run: Path | None) -> Finding:
    folder = (run or Path(config.output.runs)).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIGABYTE
    if free < LEAST_FREE:
        return Finding("problem", "disk", f"{free:.2f} GB free below {folder}", "free space, or set output.runs")
    return Finding("ok", "disk", f"{free:.1f} GB free below {folder}")


def _data(config: RunConfig) -> list[Finding]:
    if config.data.source == "generated":
        from harness.pocket import pocket_task

        try:
            task = pocket_task(config)
        except UserError as error:
            return [Finding("problem", "data", str(error), "choose data=, task= and model= that fit together")]
        return [Finding("ok", "data", f"generated; checkpoint {task.checkpoint_name}")]
    from harness.tasks.library import Library
    from harness.tasks.places import data_root

    library = Library(data_root(config.data.root))
    fetch = f"python -m harness data fetch {config.data.name} data.root={library.root}"
    try:
        found = library.verify(config.data.name)
    except UserError as error:
        return [Finding("problem", "data", str(error), fetch)]
    if found.state == "verified":
        return [Finding("ok", "data", f"{config.data.name} verified in {library.root}")]
    text = f"{config.data.name} is {found.state} in {library.root}" + "".join(f"; {item}" for item in found.problems)
    return [Finding("problem", "data", text, fetch)]

"""Choose how much `dvc repro` runs: writes params.yaml, which dvc reads (it does not compose Hydra).

smoke     four methods, one seed, a few steps: to see that everything works
default   four methods, five seeds
extended  every method, three rewards, group sizes 8 to 32, arithmetic
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import yaml

from harness.errors import UserError
from harness.report.plan import plan
from harness.store import RunStore
from harness.store.files import make_folder, write_atomically

PRESETS = {"smoke": "pocket_smoke", "default": "pocket", "extended": "pocket_extended"}
PARAMETERS = Path("params.yaml")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("preset", nargs="?", choices=sorted(PRESETS), help="write params.yaml for this preset")
    parser.add_argument("--stamp", type=Path, metavar="FILE", help="write which runs of the study are done, and exit")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs (default: %(default)s)")


def main(args: argparse.Namespace) -> int:
    if args.stamp is not None:
        return _stamp(args.stamp, args.runs)
    if args.preset is None:
        raise UserError(f"give a preset: {', '.join(sorted(PRESETS))}")
    write_atomically(PARAMETERS, yaml.safe_dump(parameters(args.preset), sort_keys=False).encode())
    print(f"{PARAMETERS}: preset {args.preset}, study {PRESETS[args.preset]}; `dvc repro` runs what is missing")
    return 0


def parameters(preset: str) -> dict[str, object]:
    """The parameters of dvc.yaml: the study, and the names of all tables and figures, by what they are made from."""
    from figures import __main__ as figures
    from paper_tables import __main__ as tables

    return {
        "preset": preset,
        "study": PRESETS[preset],
        "tables": _by_origin(tables.names(), tables.needs_results),
        "figures": _by_origin(figures.names(), figures.needs_results),
    }


def _by_origin(names: list[str], needs_results: Callable[[str], bool]) -> dict[str, list[str]]:
    return {
        "results": [name for name in names if needs_results(name)],
        "code": [name for name in names if not needs_results(name)],
    }


def _stamp(path: Path, root: Path) -> int:
    """A file that changes when a run of the study does: run id and digest of its metrics, one line each."""
    study = str(yaml.safe_load(PARAMETERS.read_text(encoding="utf-8"))["study"])
    wanted = [str(name) for name in plan()[study]["runs"]]  # type: ignore[attr-defined]
    store = RunStore(root)
    digests = {}
    for name in wanted:
        metrics = store.root / name / "metrics.jsonl"
        digests[name] = hashlib.sha256(metrics.read_bytes()).hexdigest() if metrics.exists() else None
    make_folder(path.parent)
    write_atomically(path, (json.dumps({"study": study, "runs": digests}, indent=1) + "\n").encode())
    return 0

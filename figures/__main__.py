"""``python -m figures [NAME ...]``: build figures from results/ into results/figures/."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import figures
from harness.errors import UserError, nearest


def names() -> list[str]:
    """Modules that build a figure."""
    return sorted(item.name for item in pkgutil.iter_modules(figures.__path__) if item.name.startswith("fig"))


def module(name: str) -> ModuleType:
    return importlib.import_module(f"figures.{name}")


def needs_results(name: str) -> bool:
    """Whether ``build`` of the module takes results; without, the figure is made from code and conf/ alone."""
    return bool(inspect.signature(module(name).build).parameters)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all ({', '.join(names())})")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder that collect wrote")
    parser.add_argument("--output", type=Path, help="default: <results>/figures")
    args = parser.parse_args(argv)
    try:
        from figures.picture import write

        chosen = args.names or names()
        for name in chosen:
            if name not in names():
                raise UserError(f"figure {name}: {nearest(name, names())}")
        results = None
        if any(map(needs_results, chosen)):
            from harness.analysis.results import load_results

            results = load_results(args.results)
        output = args.output or args.results / "figures"
        for name in chosen:
            picture = module(name).build(results) if needs_results(name) else module(name).build()
            write(picture, output)
            absent = f", without {len(picture.missing)} panels" if picture.missing else ""
            print(f"{picture.title}: {output / picture.name}.png{absent}")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

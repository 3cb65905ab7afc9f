"""``python -m figures [NAME ...]``: build figures from results/ into results/figures/."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
from pathlib import Path

import figures
from harness.errors import UserError, nearest


def names() -> list[str]:
    """Modules that build a figure."""
    return sorted(item.name for item in pkgutil.iter_modules(figures.__path__) if item.name.startswith("fig"))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all ({', '.join(names())})")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder that collect wrote")
    parser.add_argument("--output", type=Path, help="default: <results>/figures")
    args = parser.parse_args(argv)
    try:
        from figures.picture import write
        from harness.analysis.results import load_results

        chosen = args.names or names()
        for name in chosen:
            if name not in names():
                raise UserError(f"figure {name}: {nearest(name, names())}")
        results = load_results(args.results)
        output = args.output or args.results / "figures"
        for name in chosen:
            picture = importlib.import_module(f"figures.{name}").build(results)
            write(picture, output)
            absent = f", without {len(picture.missing)} panels" if picture.missing else ""
            print(f"{picture.title}: {output / picture.name}.png{absent}")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

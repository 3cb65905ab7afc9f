"""``python -m paper_tables [NAME ...]``: build tables from results/ into results/tables/."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from types import ModuleType

import paper_tables
from harness.errors import UserError, nearest


def names() -> list[str]:
    """Modules that build a table."""
    found = [item.name for item in pkgutil.iter_modules(paper_tables.__path__)]
    return sorted(name for name in found if name.startswith("table") and name != "table")


def module(name: str) -> ModuleType:
    return importlib.import_module(f"paper_tables.{name}")


def needs_results(name: str) -> bool:
    """Whether ``build`` of the module takes results; without, the table is made from code and conf/ alone."""
    return bool(inspect.signature(module(name).build).parameters)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m paper_tables", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all ({', '.join(names())})")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder that collect wrote")
    parser.add_argument("--output", type=Path, help="default: <results>/tables")
    args = parser.parse_args(argv)
    try:
        from paper_tables.render import write

        chosen = args.names or names()
        for name in chosen:
            if name not in names():
                raise UserError(f"table {name}: {nearest(name, names())}")
        results = None
        if any(map(needs_results, chosen)):
            from harness.analysis.results import load_results

            results = load_results(args.results)
        output = args.output or args.results / "tables"
        for name in chosen:
            table = module(name).build(results) if needs_results(name) else module(name).build()
            write(table, output)
            print(f"{table.title}: {output / table.name}.md")
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

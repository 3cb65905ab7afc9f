"""``python -m figures`` and ``python -m paper_tables``: packages in which each module builds one item of the report."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UserError, nearest


@dataclass(frozen=True)
class BuildCommand:
    """package: its modules ``<prefix>_...`` and ``<prefix>01_...`` have a function ``build``. what: one such item, in a
    word; its plural names the folder below the results. write: puts an item into a folder, and says so in a line."""

    package: ModuleType
    prefix: str
    what: str
    write: Callable[[Any, Path], str]

    def names(self) -> list[str]:
        """Modules that build an item."""
        found = [item.name for item in pkgutil.iter_modules(self.package.__path__)]
        return sorted(name for name in found if re.match(rf"{self.prefix}\d*_", name))

    def module(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package.__name__}.{name}")

    def needs_results(self, name: str) -> bool:
        """Whether ``build`` of the module takes results; without, the item is made from code and conf/ alone."""
        return bool(inspect.signature(self.module(name).build).parameters)

    def main(self, argv: list[str] | None = None) -> int:
        """Build the items named, or all; 0, or 2 after a user's mistake."""
        known = self.names()
        parser = argparse.ArgumentParser(
            prog=f"python -m {self.package.__name__}",
            description=f"Build {self.what}s from results/ into results/{self.what}s/.",
        )
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"default: all ({', '.join(known)})")
        parser.add_argument("--results", type=Path, default=Path("results"), help="folder that collect wrote")
        parser.add_argument("--output", type=Path, help=f"default: <results>/{self.what}s")
        args = parser.parse_args(argv)
        try:
            self._build(args.names or known, args.results, args.output or args.results / f"{self.what}s")
        except UserError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return 0

    def _build(self, chosen: list[str], folder: Path, output: Path) -> None:
        for name in chosen:
            if name not in self.names():
                raise UserError(f"{self.what} {name}: {nearest(name, self.names())}")
        results = None
        if any(map(self.needs_results, chosen)):
            from harness.analysis.results import load_results

            results = load_results(folder)
        for name in chosen:
            build = self.module(name).build
            print(self.write(build(results) if self.needs_results(name) else build(), output))

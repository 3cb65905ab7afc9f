"""What the runs of a matrix share is built once, before the first starts: ``python -m harness.launch.prepare``.

Reads the folders of the runs from standard input, one a line, calls ``prepare(configs)`` of each engine that has it for
those that are not done, and sees that the evaluations they ask for can be made. A process of its own, so that the
launcher never loads an engine's libraries.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.engine_lookup import find_engine
from harness.launch.wanted_evaluations import Wanted, wanted
from harness.store import Run


def main() -> int:
    """0: ready; 2: a user's mistake; 130: interrupted."""
    by_engine: dict[str, list[RunConfig]] = defaultdict(list)
    try:
        evaluations: list[Wanted] = []
        for line in sys.stdin:
            run = Run(Path(line.rstrip("\n")))
            evaluations += wanted(run)
            if run.status().state != "done":
                by_engine[run.config.engine.name].append(run.config)
        for name, configs in by_engine.items():
            module = find_engine(name)
            if hasattr(module, "prepare"):
                module.prepare(configs)
        if evaluations:
            _prepare_evaluations(evaluations)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _prepare_evaluations(evaluations: Sequence[Wanted]) -> None:
    """Build the environment of bfcl-eval; the data of the maths benchmarks must be there (a job may have no network).

    Raises :class:`UserError` with the command that mends it.
    """
    from harness.evaluation.benchmarks import BFCL, MATHS
    from harness.tasks.datasets import MATHS_BENCHMARKS
    from harness.tasks.library import Library
    from harness.tasks.places import data_root

    if any(item.benchmark == BFCL for item in evaluations):
        from harness.evaluation.bfcl import environment

        environment.build()
    places = {(item.benchmark, item.options.get("data.root")) for item in evaluations}
    for benchmark, root in sorted(places, key=str):
        names = MATHS_BENCHMARKS if benchmark == MATHS else (benchmark,) if benchmark in MATHS_BENCHMARKS else ()
        library = Library(data_root(root))
        for name in names:
            if library.verify(name).state != "verified":
                raise UserError(
                    f"evaluation on {benchmark}: {name} is not in {library.root}; run `python -m harness data fetch "
                    f"{name}`, or give evaluate_at=[]"
                )


if __name__ == "__main__":
    sys.exit(main())

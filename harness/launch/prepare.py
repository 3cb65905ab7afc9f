"""What the runs of a matrix share is built once, before the first starts: ``python -m harness.launch.prepare``.

Reads the folders of the runs from standard input, one a line, and calls ``prepare(configs)`` of each engine that has
it. A process of its own, so that the launcher never loads an engine's libraries.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from harness.config import RunConfig
from harness.errors import UserError
from harness.launch.engine_lookup import find_engine
from harness.store import Run


def main() -> int:
    """0: ready; 2: a user's mistake; 130: interrupted."""
    by_engine: dict[str, list[RunConfig]] = defaultdict(list)
    try:
        for line in sys.stdin:
            config = Run(Path(line.rstrip("\n"))).config
            by_engine[config.engine.name].append(config)
        for name, configs in by_engine.items():
            module = find_engine(name)
            if hasattr(module, "prepare"):
                module.prepare(configs)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

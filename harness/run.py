"""``python harness/run.py [-m] key=value ...``: compose the runs asked for, say what will happen, and start them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
if sys.path and Path(sys.path[0]).resolve() == _HERE:
    # Started as a script: modules of this folder must not hide top-level packages of the same name.
    sys.path[0] = str(_HERE.parent)


def main() -> int:
    """Exit code: 0 all runs done (or nothing to do), 1 a run failed, 2 a user's mistake, 130 interrupted."""
    import hydra

    from harness.compose import CONF, one_line_errors, register_methods
    from harness.errors import UserError

    sys.path.append(str(_HERE / "launch" / "plugins"))
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra hands its errors on instead of printing them
    try:
        sys.argv[1:] = register_methods(sys.argv[1:])
        with one_line_errors(sys.argv[1:]):
            hydra.main(config_path=str(CONF), config_name="config", version_base="1.3")(_single)()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command continues", file=sys.stderr)
        return 130
    return 0


def _single(config: object) -> None:
    raise RuntimeError(f"runs start through the sweeper (hydra.mode=MULTIRUN), not one by one: {type(config)}")


if __name__ == "__main__":
    sys.exit(main())

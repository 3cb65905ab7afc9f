"""``python run_matrix.py RUNS STEPS SECONDS METHOD...``: the pool with the fake engine, as a process to be killed."""

import sys

from store_configs import small_config

from harness.launch import pool
from harness.store import RunStore

if __name__ == "__main__":
    root, steps, seconds, *methods = sys.argv[1:]
    configs = [
        small_config(method=name, steps=int(steps), engine="fakes.engine", options={"seconds": float(seconds)})
        for name in methods
    ]
    sys.exit(pool.launch(configs, store=RunStore(root), options={"workers": 2}, retry=False))

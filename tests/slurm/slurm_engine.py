"""An engine for tests: a seeded random walk, kept in a checkpoint together with the generator's state.

``engine.options``: ``seconds`` a step, ``stubborn`` (does not listen to a request to stop), ``fail_at`` a step, ``ray``
(look at the Ray cluster that the job started), ``allocate_mb`` (memory to take before the first step), ``problem``
(what a check before the start finds).
Each step is also noted in ``steps.txt``, with the process that did it.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from harness.launch.findings import Finding


def diagnose(config, run):
    problem = config.engine.options.get("problem")
    return [Finding("problem", "GPUs", problem, "start on another node")] if problem else []


def train(config, run, should_stop):
    options = config.engine.options
    checkpoint = Path(run.checkpoints) / "walk.json"
    generator = np.random.default_rng(config.seed)
    place, done = 0.0, 0
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        generator.bit_generator.state, place, done = saved["generator"], saved["place"], saved["step"]
    if options.get("ray", False):
        import ray

        ray.init(log_to_driver=False)
        alive = sum(node["Alive"] for node in ray.nodes())
        (run.path / "ray.txt").write_text(f"{alive} nodes {ray.cluster_resources()['GPU']:.0f} GPUs")
        ray.shutdown()
    memory = np.ones(options.get("allocate_mb", 0) * 2**17)
    for step in range(done + 1, config.training.steps + 1):
        time.sleep(options.get("seconds", 0.0))
        if step == options.get("fail_at"):
            raise ValueError(f"no luck at step {step}")
        place += float(generator.normal())
        run.metrics.append(step, {"reward/format": place, "seconds": options.get("seconds", 0.0)})
        with open(run.path / "steps.txt", "a") as file:
            file.write(f"{step} {os.getpid()} {os.environ.get('SLURM_JOB_ID')}\n")
        stop = should_stop() and not options.get("stubborn", False)
        if step % config.output.checkpoint_every == 0 or step == config.training.steps or stop:
            content = {"generator": generator.bit_generator.state, "place": place, "step": step}
            aside = checkpoint.with_suffix(".new")
            aside.write_text(json.dumps(content))
            aside.replace(checkpoint)
        if stop:
            return
    del memory
    run.write_evaluation("pocket", config.training.steps, {"n": 1, "metrics": {"reward/format": place}})

"""What is evaluated: a checkpoint of a run, a model, or an endpoint; and where its evaluations are stored."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import RunConfig
from harness.errors import UserError
from harness.evaluation.options import Options
from harness.evaluation.sampling import Backend
from harness.store import Run, RunStore
from harness.store.evaluations import Evaluations

KEY_VARIABLE = "OPENAI_API_KEY"
OUT = "evaluations"


@dataclass(frozen=True)
class Subject:
    """``name`` and ``step`` identify the weights; ``path`` is what an engine loads (None for an endpoint)."""

    name: str
    step: int
    evaluations: Evaluations
    path: str | None
    config: RunConfig | None
    run: Run | None


def subjects(options: Options) -> list[Subject]:
    """One for each step asked for; UserError when a checkpoint is not there."""
    if options.run is not None:
        found = Path(options.run)
        run = Run(found.resolve()) if found.is_dir() else RunStore(options.runs).get(options.run)
        return [_of_run(run, step) for step in _steps(options, run)]
    if options.step is not None:
        raise UserError(f"step={options.step} needs run=; a model or an endpoint has no steps")
    name = options.model or options.endpoint or ""
    folder = Path(options.out) if options.out else Path(OUT) / re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_.")
    return [Subject(name, 0, Evaluations(folder / "evals", "out=FOLDER"), options.model, None, None)]


def _steps(options: Options, run: Run) -> list[int]:
    if options.step is None:
        return [run.config.training.steps]
    try:
        return [int(word) for word in options.step.strip("[]").split(",")]
    except ValueError as error:
        raise UserError(
            f"step={options.step} must be a step or a list of steps, e.g. step=50 or step=[0,50,100]"
        ) from error


def _of_run(run: Run, step: int) -> Subject:
    config = run.config
    return Subject(run.run_id, step, run.evaluations, _huggingface(run, step), config, run)


def _huggingface(run: Run, step: int) -> str | None:
    """Folder (or hub name, at step 0) of the Hugging Face checkpoint of a step, if there is one."""
    if step == 0:
        return run.config.model.path
    exported = run.checkpoints / "exports" / str(step)
    final = run.checkpoints / "huggingface"
    if exported.is_dir():
        return str(exported)
    return str(final) if step == run.config.training.steps and final.is_dir() else None


def backend(options: Options, subject: Subject, context: int | None) -> Backend:
    """The backend that a subject is generated with (a pocket policy has its own, see ``pocket.py``)."""
    if options.endpoint is not None:
        from harness.evaluation.backends.endpoint import EndpointBackend, Patience

        return EndpointBackend(
            options.endpoint,
            options.model_name,
            concurrency=options.concurrency,
            extra=options.extra,
            key=os.environ.get(KEY_VARIABLE),
            patience=Patience(tries=options.tries, timeout=options.timeout),
        )
    if subject.path is None:
        raise UserError(
            f"run {subject.name} has no exported model of step {subject.step} below its checkpoints; evaluate a step "
            "that was exported, or the last one of a finished run"
        )
    if options.backend == "vllm":
        from harness.evaluation.backends.vllm import VllmBackend

        return VllmBackend(
            subject.path,
            dtype=options.dtype,
            block=max(options.batch, 512),
            context=context,
            tensor_parallel=options.tensor_parallel,
        )
    from harness.evaluation.backends.transformers import TransformersBackend

    return TransformersBackend(subject.path, device=options.device, dtype=options.dtype, block=options.batch)


def identity(subject: Subject, engine: dict[str, Any]) -> dict[str, Any]:
    """The part of a header that says which weights answered."""
    return {"model": subject.name, "weights": f"step {subject.step}", **engine}

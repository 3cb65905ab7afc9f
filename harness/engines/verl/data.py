"""The prompts of a run as the Parquet files that verl reads, and the model it starts from.

A row: ``prompt`` (chat messages), ``data_source`` (the task, which selects the rewards), ``reward_model.ground_truth``
(the reference), ``extra_info.index``.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas

from harness.config import RunConfig
from harness.engines.verl.mapping import Inputs
from harness.store.files import make_folder, write_atomically

FOLDER = "verl"
TOKENIZER = f"{FOLDER}/tokenizer"


def prepare(config: RunConfig, run: Path) -> Inputs:
    """Write the run's prompts below ``run`` and find (or build) its model. Raises UserError for missing data."""
    if config.data.source == "generated":
        return _generated(config, run)
    return _published(config, run)


def expected(config: RunConfig, run: Path) -> Inputs:
    """What :func:`prepare` would give, without building or reading anything: the number of prompts is a guess."""
    many = 10**9
    files = _files(run)
    if config.data.source != "generated":
        return Inputs(str(config.model.path), files[0], files[1], many)
    from harness.pocket import pocket_task
    from harness.pocket.cache import cache_root

    checkpoint = cache_root() / pocket_task(config).checkpoint_name
    return Inputs(str(checkpoint), files[0], files[1], many, str(run / TOKENIZER))


def write_prompts(path: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write rows with ``messages``, ``reference`` and ``task`` as verl's Parquet; returns how many."""
    table = pandas.DataFrame(
        [
            {
                "data_source": row["task"],
                "prompt": list(row["messages"]),
                "ability": row["task"],
                "reward_model": {"style": "rule", "ground_truth": row["reference"]},
                "extra_info": {"index": index},
            }
            for index, row in enumerate(rows)
        ]
    )
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    make_folder(path.parent)
    write_atomically(path, buffer.getvalue())
    return len(table)


def _generated(config: RunConfig, run: Path) -> Inputs:
    from harness.pocket import pocket_task

    task, training = pocket_task(config), config.training
    count = config.prompts_per_step
    if training.filter != "none":
        count = (training.candidate_prompts or count) * (training.max_generation_batches or 1)
    steps = range(1, training.steps + 1)
    prompts = [prompt for step in steps for prompt in task.training_prompts(config.seed, step, count)]
    files = _files(run)
    total = write_prompts(files[0], (_row(task.reward_task, prompt.text, prompt.reference) for prompt in prompts))
    held_out = task.evaluation_prompts(training.evaluation_prompts)
    write_prompts(files[1], (_row(task.reward_task, prompt.text, prompt.reference) for prompt in held_out))
    # A folder without config.json: for a Qwen2 model transformers would put Qwen's own splitting rule in its place.
    tokenizer = run / TOKENIZER
    task.tokenizer.save_pretrained(tokenizer)
    return Inputs(str(task.checkpoint), files[0], files[1], total, str(tokenizer))


def _published(config: RunConfig, run: Path) -> Inputs:
    from harness.tasks import verl_rows

    training, held_out = verl_rows(config)
    files = _files(run)
    total = write_prompts(files[0], training)
    write_prompts(files[1], held_out)
    return Inputs(str(config.model.path), files[0], files[1], total)


def _row(task: str, text: str, reference: str) -> dict[str, Any]:
    return {"task": task, "messages": [{"role": "user", "content": text}], "reference": reference}


def _files(run: Path) -> tuple[Path, Path]:
    return run / FOLDER / "train.parquet", run / FOLDER / "held_out.parquet"

"""The prompts of a run on published data, ready for an engine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from harness.config import RunConfig
from harness.errors import UserError
from harness.tasks.library import Library
from harness.tasks.places import data_root
from harness.tasks.prompts import ChatTokenizer, Example, within_limit
from harness.tasks.task import task

_LOG = logging.getLogger(__name__)


def verl_rows(
    config: RunConfig, tokenizer: ChatTokenizer | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(training rows, held-out rows) of a run: mappings with ``task``, ``messages``, ``reference``.

    Prompts of more than ``training.max_prompt_tokens`` after the model's chat template are dropped; how many is logged.
    ``tokenizer``: the model's, loaded from ``model.path`` when not given. UserError when the data were not fetched, or
    when no prompt is left.
    """
    library = Library(data_root(config.data.root))
    wanted = task(config.task.name)
    wanted = replace(wanted, training=(config.data.name, wanted.training[1]))
    training = wanted.training_examples(library)
    held_out = wanted.held_out_examples(library, config.training.evaluation_prompts)
    tokenizer = tokenizer or _tokenizer(config)
    limit = config.training.max_prompt_tokens
    kept, dropped = within_limit(training, tokenizer, limit)
    kept_held_out, dropped_held_out = within_limit(held_out, tokenizer, limit)
    _LOG.info(
        "%s: %d of %d training prompts and %d of %d held-out prompts dropped, longer than %d tokens",
        *(config.data.name, dropped, len(training), dropped_held_out, len(held_out), limit),
    )
    if not kept:
        raise UserError(
            f"no prompt of {config.data.name} has at most training.max_prompt_tokens={limit} tokens; raise the limit"
        )
    return _rows(config.task.name, kept), _rows(config.task.name, kept_held_out)


def _rows(task_name: str, examples: Sequence[Example]) -> list[dict[str, Any]]:
    return [
        {"task": task_name, "messages": list(example.messages), "reference": example.reference} for example in examples
    ]


def _tokenizer(config: RunConfig) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(config.model.path)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the tokenizer of model.path={config.model.path} can't be loaded ({reason}); download the model first or "
            "give a folder"
        ) from error

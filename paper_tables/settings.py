"""What the configuration tables share: settings side by side, one column per run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.config import RunConfig
from harness.engines.reward_kl import SUMMED_REWARD_METHODS
from paper_tables.table import Cell, Column, Row, Table

Setting = tuple[str, Callable[[RunConfig], object]]


def _kl_methods(run: RunConfig) -> str:
    """Methods that get the KL penalty in their reward; nothing where there is none."""
    seen = run.training.reward_kl_coefficient != 0.0 and run.training.reward_kl_methods == "summed"
    return ", ".join(SUMMED_REWARD_METHODS) if seen else ""


COMMON: tuple[Setting, ...] = (
    ("training steps", lambda run: run.training.steps),
    ("prompts a step", lambda run: run.prompts_per_step),
    ("group size G", lambda run: run.group_size),
    ("responses a step", lambda run: run.training.responses_per_step),
    ("optimizer updates a step", lambda run: run.training.updates_per_step),
    ("mini-batch (prompts)", lambda run: run.prompts_per_step // run.training.updates_per_step),
    ("learning rate", lambda run: run.training.learning_rate),
    ("clip range", lambda run: f"{run.policy_loss.clip_low} / {run.policy_loss.clip_high}"),
    ("loss reduction", lambda run: run.policy_loss.reduction.replace("_", " ")),
    ("gradient clip", lambda run: run.training.gradient_clip),
    ("entropy coefficient", lambda run: run.training.entropy_coefficient),
    ("KL in the reward", lambda run: run.training.reward_kl_coefficient),
    ("methods that see it", _kl_methods),
    ("KL in the loss", lambda run: run.training.loss_kl_coefficient),
    ("type of that KL", lambda run: run.training.loss_kl_type),
    ("rollout temperature / top-p", lambda run: f"{run.training.temperature} / {run.training.top_p}"),
    ("prompt / response tokens", lambda run: f"{run.training.max_prompt_tokens} / {run.training.max_response_tokens}"),
    ("length limit", lambda run: run.data.length_limit),
    ("group filter", lambda run: run.training.filter.replace("_", " ")),
    ("candidate prompts", lambda run: run.training.candidate_prompts),
    ("generation batches at most", lambda run: run.training.max_generation_batches),
    ("evaluated every (steps)", lambda run: run.training.evaluate_every),
    ("final normalisation", lambda run: run.task.normalization),
    ("engine", lambda run: run.engine.name),
    ("nodes x GPUs", lambda run: f"{run.engine.nodes} x {run.engine.gpus_per_node}"),
)


def settings_table(
    name: str,
    title: str,
    caption: str,
    runs: dict[str, RunConfig],
    *,
    paper_item: str,
    rows: Sequence[Setting] = COMMON,
) -> Table:
    """One row a setting, one column a run; settings that no column has are left out."""
    columns = tuple(Column(f"c{number}", label) for number, label in enumerate(runs))
    table_rows = []
    for label, read in rows:
        values = [_words(read(run)) for run in runs.values()]
        if any(values):
            cells = {
                column.key: Cell(value=value) if value else Cell(why="not used")
                for column, value in zip(columns, values, strict=True)
            }
            table_rows.append(Row(label, cells))
    return Table(
        name=name,
        title=title,
        caption=caption,
        columns=columns,
        rows=tuple(table_rows),
        row_heading="setting",
        paper_item=paper_item,
        notes=("Generated from conf/: these are the values that runs use.",),
    )


def _words(value: object) -> str:
    if value is None or value in ("none", ""):
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

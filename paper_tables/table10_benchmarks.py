"""Table 10: where each benchmark comes from, how many outputs are asked for, and how they are decoded."""

from __future__ import annotations

from collections.abc import Sequence

from harness.compose import composing
from harness.config import RunConfig
from harness.evaluation import maths
from harness.evaluation import pocket as pocket_benchmark
from harness.evaluation.bfcl import stages as bfcl
from harness.evaluation.bfcl.categories import CASES, LIVE, MULTI_TURN
from harness.evaluation.bfcl.environment import VERSION
from harness.evaluation.sampling import Sampling
from harness.tasks.datasets import DATASETS, MATHS_BENCHMARKS, Dataset
from harness.tasks.prompts import MATHS_INSTRUCTION
from paper_tables.table import Cell, Column, Row, Table

MATHS, BFCL, POCKET = "maths", "BFCL-v4", "pocket (generated, not the paper's)"
POCKET_TASKS = (("tool_calling", "tool calling"), ("tool_calling_three", "three rewards"), ("maths", "arithmetic"))


def build() -> Table:
    """Needs no results: the table is made from ``harness/tasks``, ``harness/evaluation`` and conf/."""
    return Table(
        name="table10_benchmarks",
        title="Benchmarks and decoding",
        caption="Outputs: generations of one checkpoint. New tokens and context: at most.",
        columns=(
            Column("source", "source"),
            Column("part", "files"),
            Column("questions", "questions", decimals=0),
            Column("samples", "samples", decimals=0),
            Column("outputs", "outputs", decimals=0),
            Column("decoding", "T / top-p"),
            Column("tokens", "new tokens", decimals=0),
            Column("context", "context", decimals=0),
            Column("seed", "seed", decimals=0),
        ),
        rows=(*_maths_rows(), *_bfcl_rows(), *_pocket_rows()),
        row_heading="benchmark",
        paper_item="Table 10",
        notes=_notes(),
    )


def _maths_rows() -> list[Row]:
    sampling = maths.SAMPLING
    rows = [_maths_row(DATASETS[name], sampling) for name in MATHS_BENCHMARKS]
    counts = [DATASETS[name].files[0].rows for name in MATHS_BENCHMARKS]
    known = [count for count in counts if count is not None]
    total = sum(known) if len(known) == len(counts) else None
    cells = {"source": Cell(value="as above"), "part": Cell(value="as above")}
    return [*rows, Row("all five", {**cells, **_decoded(total, sampling)}, MATHS)]


def _maths_row(dataset: Dataset, sampling: Sampling) -> Row:
    file = dataset.files[0]
    revision = f"@{dataset.source.revision[:8]}" if dataset.source.revision else ""
    cells = {
        "source": Cell(value=f"{dataset.source.name}{revision}"),
        "part": Cell(value="/".join(file.path.split("/")[-2:])),
    }
    return Row(dataset.title, {**cells, **_decoded(file.rows, sampling)}, MATHS)


def _bfcl_parts() -> dict[str, Sequence[str]]:
    non_live = [name for name in CASES if name not in LIVE and name not in MULTI_TURN]
    return {"Non-Live": non_live, "Live": LIVE, "Multi-Turn": MULTI_TURN}


def _bfcl_rows() -> list[Row]:
    return [_bfcl_row(label, names) for label, names in {**_bfcl_parts(), "all": list(CASES)}.items()]


def _bfcl_row(label: str, names: Sequence[str]) -> Row:
    cells = {"source": Cell(value=f"bfcl-eval {VERSION}"), "part": Cell(value=f"{len(names)} categories")}
    found = _decoded(sum(CASES[name] for name in names), bfcl.SAMPLING)
    if any(name in MULTI_TURN for name in names):
        found["outputs"] = Cell(why="depends on the model: one a step of a conversation")
    return Row(label, {**cells, **found}, BFCL)


def _notes() -> tuple[str, ...]:
    sets = [DATASETS[name] for name in MATHS_BENCHMARKS]
    cases = "; ".join(
        f"{label}: " + ", ".join(f"{name} {CASES[name]:,}" for name in names) for label, names in _bfcl_parts().items()
    )
    return (
        f'Maths: one user turn, no system message, the question followed by "{MATHS_INSTRUCTION}" An output exceeds '
        f"the limit above {maths.LENGTH_LIMIT:,} tokens. Macro: the unweighted mean of the five.",
        *(f"{item.title}: {item.note}." for item in sets if item.note),
        "BFCL: its own cases and checkers, through ToolRL's prompt and parser. Live is weighted by cases, Non-Live and "
        "Multi-Turn are not; simple is the mean of its three languages; the average is the mean of the three groups.",
        f"BFCL cases: {cases}.",
        "Pocket: the run's own held-out prompts and decoding.",
        "Generated from harness/tasks, harness/evaluation and conf/: these are the values that evaluations use. "
        "Licences and citations: `python -m harness data list`.",
    )


def _pocket_rows() -> list[Row]:
    with composing() as composer:
        runs = {label: composer.compose(["scale=pocket", f"task={task}"]) for task, label in POCKET_TASKS}
    return [_pocket_row(label, run) for label, run in runs.items()]


def _pocket_row(label: str, run: RunConfig) -> Row:
    cells = {"source": Cell(value=run.data.name.replace("_", " ")), "part": Cell(value="held-out prompts")}
    found = _decoded(run.training.evaluation_prompts, pocket_benchmark.sampling(run))
    return Row(label, {**cells, **found, "seed": Cell(value="the run's")}, POCKET)


def _decoded(questions: int | None, sampling: Sampling) -> dict[str, Cell]:
    return {
        "questions": _count(questions),
        "samples": _count(sampling.samples),
        "outputs": _count(None if questions is None else questions * sampling.samples),
        "decoding": Cell(value=f"{sampling.temperature:g} / {sampling.top_p:g}"),
        "tokens": _count(sampling.max_new_tokens),
        "context": _count(sampling.context) if sampling.context else Cell(value="the model's"),
        "seed": _count(sampling.seed),
    }


def _count(value: int | None) -> Cell:
    return Cell(why="not fixed by the publisher") if value is None else Cell(value=float(value))

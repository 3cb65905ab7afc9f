"""verl's prompt files: Parquet with data_source, prompt, ability, reward_model and extra_info; written and checked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.tasks.prompts import Example, Message

COLUMNS = ("data_source", "prompt", "ability", "reward_model", "extra_info")


def write(path: Path, dataset: str, task: str, split: str, examples: Sequence[Example]) -> None:
    """Write the examples, replacing ``path`` at once. ``data_source`` is the data set, ``ability`` the task."""
    import pyarrow
    import pyarrow.parquet

    rows = [
        {
            "data_source": dataset,
            "prompt": list(example.messages),
            "ability": task,
            "reward_model": {"style": "rule", "ground_truth": example.reference},
            "extra_info": {"split": split, "index": example.index, "id": example.identifier},
        }
        for example in examples
    ]
    text = pyarrow.string()
    message = pyarrow.struct([("role", text), ("content", text)])
    layout = pyarrow.schema(
        [
            ("data_source", text),
            ("prompt", pyarrow.list_(message)),
            ("ability", text),
            ("reward_model", pyarrow.struct([("style", text), ("ground_truth", text)])),
            ("extra_info", pyarrow.struct([("split", text), ("index", pyarrow.int64()), ("id", text)])),
        ]
    )
    temporary = path.with_name(f".{path.name}.part")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=layout), temporary)
    temporary.replace(path)


def read(path: Path) -> list[Example]:
    """Read and check a converted file. Raises UserError naming the file, the row and the column."""
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} can't be read ({reason}); make it again with: python -m harness data fetch") from error
    return [_example(path, number, row) for number, row in enumerate(rows)]


def _example(path: Path, number: int, row: dict[str, Any]) -> Example:
    missing = [column for column in COLUMNS if row.get(column) is None]
    if missing:
        raise UserError(
            f"{path}, row {number}: no {missing[0]}; make the file again with: python -m harness data fetch"
        )
    messages: tuple[Message, ...] = tuple(dict(message) for message in row["prompt"])
    extra = row["extra_info"]
    return Example(messages, row["reward_model"]["ground_truth"], extra["index"], extra.get("id"))

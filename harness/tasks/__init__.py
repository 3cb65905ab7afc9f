"""Tasks on published data: data sets, prompts, references, and what each task rewards and is evaluated on."""

from harness.tasks.rows import verl_rows

__all__ = ["verl_rows"]

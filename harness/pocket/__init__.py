"""Small models and generated tasks: real text, real rewards, a warm start of under a minute."""

from harness.pocket.task import PocketTask, Prompt, pocket_task

__all__ = ["PocketTask", "Prompt", "pocket_task"]

"""verl's names for what the run store calls something else."""

from __future__ import annotations

STEP_KEYS: dict[str, str] = {
    "response_length": "response_length",
    "kl": "kl",
    "entropy": "actor/entropy",
    "grad_norm": "actor/grad_norm",
    "clip_fraction": "actor/pg_clipfrac",
    "loss": "actor/pg_loss",
    "loss_kl": "actor/kl_loss",
}
"""Metric of the store -> metric of verl, both of one training step."""

FAILED_GROUP = "Error in _run_prompt"
"""How verl's log begins the traceback of a group that failed."""


def place_of(key: str) -> tuple[str, int, int]:
    """(uid of the prompt, session, output) of a row of verl's transfer queue, whose keys are ``uid_session_output``."""
    uid, session, output = key.rsplit("_", 2)
    return uid, int(session), int(output)

"""Overrides of verl's configuration as command-line arguments, and verl's own verdict on them."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UserError


def command_line(values: Mapping[str, Any]) -> list[str]:
    """The overrides as arguments of ``python -m verl.trainer.main_ppo``."""
    return [f"{key}={hydra_value(value)}" for key, value in values.items()]


_WORDS = ("null", "true", "false", "inf", "nan")
"""Texts that Hydra reads as something else unless they are quoted."""


def hydra_value(value: Any) -> str:
    """A plain value in Hydra's override grammar; texts are quoted, so that any path is one value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {hydra_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(hydra_value(item) for item in value) + "]"
    if re.fullmatch(r"[A-Za-z/][\w./:-]*", str(value)) and str(value).lower() not in _WORDS:
        return str(value)
    # A backslash is one, except before the closing or an inner quote.
    text = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + (match[2] and "\\'"), str(value))
    return f"'{text}'"


def compose(arguments: list[str]) -> Any:
    """verl's whole configuration with these overrides, checked by verl: its ``validate_config`` and the dataclasses of
    actor, reference, rollout and algorithm (that of the model reads the model's files).

    Raises UserError with verl's message when it does not accept them. Needs verl installed.
    """
    import verl.trainer
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    folder = Path(next(iter(verl.trainer.__path__))) / "config"
    try:
        with initialize_config_dir(str(folder), version_base=None):
            config = hydra_compose("ppo_trainer", overrides=arguments)
        with contextlib.redirect_stdout(io.StringIO()):
            validate_config(
                config,
                use_reference_policy=need_reference_policy(config),
                use_critic=need_critic(config),
            )
        _build(config, [text.partition("=")[0].removeprefix(ADDED) for text in arguments if text.startswith(ADDED)])
    except Exception as error:
        raise UserError(f"verl does not accept the configuration: {' '.join(str(error).split())}") from error
    return config


ADDED = "+algorithm."
"""Our keys of verl's section ``algorithm``, which the trainer hands on as it is."""


def _build(config: Any, added: list[str]) -> None:
    """Make what verl's workers make of the configuration."""
    from omegaconf import OmegaConf
    from verl.utils.config import omega_conf_to_dataclass

    omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    sections = {"ref": config.actor_rollout_ref.ref, "algorithm": config.algorithm}
    plain: dict[str, Any] = {name: OmegaConf.to_container(section, resolve=True) for name, section in sections.items()}
    for name in added:
        plain["algorithm"].pop(name)
    # The reference worker is an actor to verl: its worker renames these keys before it builds the dataclass.
    for old, new in (
        ("log_prob_micro_batch_size", "ppo_micro_batch_size"),
        ("log_prob_micro_batch_size_per_gpu", "ppo_micro_batch_size_per_gpu"),
        ("log_prob_use_dynamic_bsz", "use_dynamic_bsz"),
        ("log_prob_max_token_len_per_gpu", "ppo_max_token_len_per_gpu"),
    ):
        plain["ref"][new] = plain["ref"].pop(old)
    plain["ref"]["ppo_mini_batch_size"] = config.actor_rollout_ref.actor.ppo_mini_batch_size
    for section in plain.values():
        omega_conf_to_dataclass(OmegaConf.create(section))

"""Which verl this package was checked against, and what of it the plug-in relies on.

verl names no stable interface for trainers and samplers. The plug-in therefore compares the signatures it overrides
or calls before it registers anything, and says what to do when one has changed.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

VERIFIED = "0.9.1"
OF_RAY = "_ray_trace_ctx"
"""A parameter that Ray adds to the methods of a class when it makes an actor of it."""

SIGNATURES: dict[str, tuple[str, ...]] = {
    "verl.trainer.ppo.core_algos:register_adv_est": ("name_or_enum",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.step": ("self", "metrics", "timing_raw"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.fit": ("self", "agent_loop_manager"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._init_tokenizer": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer.prepare_step": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._add_prompts_to_generate": ("self", "num_prompts"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._submit_batch_to_rollout": ("self", "batch"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._build_replay_buffer": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_old_log_prob": ("self", "batch", "metrics"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_ref_log_prob": ("self", "batch", "metrics"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._compute_advantage": ("self", "batch", "metrics"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._update_actor": ("self", "batch", "metrics"),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._save_checkpoint": ("self",),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._log_rollout_data": (
        "self",
        "batch",
        "timing_raw",
        "rollout_data_dir",
    ),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._dump_generations": (
        "self",
        "inputs",
        "outputs",
        "gts",
        "scores",
        "reward_extra_infos_dict",
        "dump_path",
    ),
    "verl.trainer.ppo.v1.trainer_base:PPOTrainer._val_metrics_update": (
        "self",
        "data_sources",
        "sample_uids",
        "reward_extra_infos_dict",
        "sample_turns",
        "expected_acc_counts",
    ),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer.__init__": (
        "self",
        "trainer_mode",
        "trainer_config",
        "max_off_policy_threshold",
        "max_off_policy_strategy",
        "sampler_kwargs",
        "poll_interval",
        "refill_fn",
        "filter_groups_metric",
        "train_batch_size",
        "gen_batch_size",
        "max_inflight_gen_batches",
        "sync_refill_failed_groups",
    ),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer.sample": ("self", "global_steps", "partition_id", "batch_size"),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._sync_metadata_from_transfer_queue": ("self",),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._clear_groups": ("self", "partition_id", "uids"),
    "verl.trainer.ppo.v1.replay_buffer:ReplayBuffer._materialize_batch": (
        "self",
        "partition_id",
        "selected_prompt_uids",
        "partition_snapshot",
    ),
    "verl.experimental.reward_loop.reward_manager.base:RewardManagerBase.run_single": ("self", "data"),
}

ON_A_CPU: dict[str, tuple[str, ...]] = {
    "verl.trainer.ppo.v1.agent_loop_tq:tq.async_kv_batch_put": (
        "keys",
        "partition_id",
        "fields",
        "tags",
        "data_parser",
    ),
    "verl.trainer.ppo.v1.agent_loop_tq:list_of_dict_to_tensordict": ("list_of_dicts",),
    "verl.experimental.agent_loop.agent_loop:AgentLoopWorker._run_agent_loop": (
        "self",
        "sampling_params",
        "trajectory",
        "agent_name",
        "trace",
        "kwargs",
    ),
    "verl.experimental.reward_loop.reward_loop:RewardLoopWorker.compute_score": ("self", "data"),
    "verl.workers.rollout.llm_server:LLMServerClient._acquire_server": ("self", "request_id", "extra"),
    "verl.workers.rollout.llm_server:LLMServerClient._release_server": ("self", "server_id", "request_id"),
    "verl.utils.torch_functional:logprobs_from_logits_v2": ("logits", "labels"),
    "verl.utils.torch_functional:logprobs_from_logits_naive": ("logits", "labels"),
}
"""What the path without an accelerator relies on beside SIGNATURES: module:name -> parameters."""


class IncompatibleVerlError(Exception):
    """The installed verl does not have what the plug-in relies on."""


def installed_version() -> str | None:
    """Version of the installed verl distribution, None without one."""
    try:
        return version("verl")
    except PackageNotFoundError:
        return None


def check(signatures: Mapping[str, tuple[str, ...]] = SIGNATURES) -> str | None:
    """None for the verified version, a warning for another version with the same ``signatures``.

    Raises :class:`IncompatibleVerlError` naming the first difference and the remedy.
    """
    found = installed_version()
    for place, expected in signatures.items():
        actual = _parameters(place)
        if actual is None or actual != expected:
            seen = "is missing" if actual is None else f"takes ({', '.join(actual)})"
            raise IncompatibleVerlError(
                f"verl {found}: {place} {seen}, expected ({', '.join(expected)}); the multi-reward estimators were "
                f"checked against verl {VERIFIED}: pip install verl=={VERIFIED}"
            )
    if found != VERIFIED:
        return (
            f"verl {found} is installed; the multi-reward estimators were checked against verl {VERIFIED}. All "
            f"signatures they rely on are the same, but nothing was run; pip install verl=={VERIFIED} to be sure"
        )
    return None


def _parameters(place: str) -> tuple[str, ...] | None:
    module, _, path = place.partition(":")
    target: object = importlib.import_module(module)
    for name in path.split("."):
        target = getattr(target, name, None)
        if target is None:
            return None
    if not callable(target):
        return None
    return tuple(name for name in inspect.signature(target).parameters if name != OF_RAY)

"""From a run's configuration to verl's: every number of the run as an override of verl's own configuration.

:func:`overrides` is pure; :mod:`harness.engines.verl.arguments` lets verl check the result. What verl cannot express
is in docs/deviations.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config import RunConfig
from harness.engines.verl.estimators import estimator_name
from harness.engines.verl.options import Options, options_of
from harness.errors import UserError, nearest
from harness.store.evaluations import held_out_benchmark

REDUCTIONS = {
    "token_mean": "token-mean",
    "sequence_mean": "seq-mean-token-mean",
    "constant_length": "seq-mean-token-sum-norm",
}
RATIOS = {"token": "vanilla", "sequence": "gspo"}
LOSS_KL_TYPES = {"none": "low_var_kl", "mse": "mse", "k3": "low_var_kl"}
FILTERS = ("none", "sum", "any_channel")
MICRO_BATCH_SHARE = 2
"""A PPO mini-batch is this many micro-batches where batching is not dynamic (Table 8: 128/64, 64/32, 32/16, 16/8)."""


@dataclass(frozen=True)
class Inputs:
    """Where the run's material lies: Hugging Face model, prompts (Parquet), how many training prompts there are, and
    the tokenizer's folder (None: the model's)."""

    model: str
    training: Path
    held_out: Path
    training_prompts: int
    tokenizer: str | None = None


def world_size(config: RunConfig) -> int:
    """Number of training workers; on a CPU ``engine.gpus_per_node`` counts processes, at least one."""
    return config.engine.nodes * workers_per_node(config)


def workers_per_node(config: RunConfig) -> int:
    if config.engine.device == "cpu":
        return max(1, config.engine.gpus_per_node)
    return config.engine.gpus_per_node


def check(config: RunConfig, prompts: int | None = None) -> Options:
    """Raise UserError for what verl or this engine cannot do; ``prompts``: number of training prompts, if known."""
    options = options_of(config)
    training, loss = config.training, config.policy_loss
    for key, value, valid in (
        ("engine.device", config.engine.device, ("cuda", "cpu")),
        ("policy_loss.ratio", loss.ratio, tuple(RATIOS)),
        ("policy_loss.reduction", loss.reduction, tuple(REDUCTIONS)),
        ("training.loss_kl_type", training.loss_kl_type, tuple(LOSS_KL_TYPES)),
        ("training.filter", training.filter, FILTERS),
        ("training.reward_kl_methods", training.reward_kl_methods, ("none", "summed")),
    ):
        if value not in valid:
            raise UserError(f"{key}={value} is unknown to engine=verl: {nearest(value, valid)}")
    _require_channels(config)
    if config.engine.nodes < 1 or (config.engine.device == "cuda" and config.engine.gpus_per_node < 1):
        raise UserError(
            f"engine.nodes={config.engine.nodes}, engine.gpus_per_node={config.engine.gpus_per_node}: engine=verl on "
            "cuda needs at least one GPU; set engine.gpus_per_node, or engine.device=cpu for the pocket model"
        )
    workers = world_size(config)
    mini_batch = training.responses_per_step // training.updates_per_step
    if mini_batch % workers:
        raise UserError(
            f"training.responses_per_step / updates_per_step = {mini_batch} responses of an update do not divide among "
            f"{workers} workers; change engine.gpus_per_node, engine.nodes or training.responses_per_step"
        )
    if training.filter != "none" and not (training.candidate_prompts and training.max_generation_batches):
        raise UserError(
            f"training.filter={training.filter} needs training.candidate_prompts (groups of a generation batch) and "
            "training.max_generation_batches (its limit)"
        )
    needed = training.candidate_prompts if training.filter != "none" else config.prompts_per_step
    if prompts is not None and prompts < (needed or 0):
        raise UserError(
            f"data={config.data.name} has {prompts} training prompts, one step needs {needed}; lower "
            "training.responses_per_step (and training.candidate_prompts)"
        )
    return options


def _require_channels(config: RunConfig) -> None:
    """UserError for a channel that the task's rewards do not have, before hours are spent on its first step."""
    from harness.rewards.batch import score_batch

    task = config.task.name
    try:
        known = list(score_batch(task, [], [], [], length_limit=config.data.length_limit).channels)
    except ValueError as error:
        raise UserError(f"task={task}, data={config.data.name}: {error}") from error
    for name in config.task.channels:
        if name not in known:
            raise UserError(f"task.channels.{name} is no reward of task={task}: {nearest(name, known)}")


def overrides(config: RunConfig, inputs: Inputs, run: Path, attempt: int) -> dict[str, Any]:
    """verl's keys with the values of this run; a leading ``+`` adds a key that verl's files do not have."""
    options = check(config, inputs.training_prompts)
    values: dict[str, Any] = {
        **_data(config, inputs),
        **_algorithm(config),
        **_policy_loss(config),
        **_actor(config, options),
        **_rollout(config, options),
        **_trainer(config, run),
        **_sampler(config),
        **_recorder(config, options, run, attempt),
        "actor_rollout_ref.model.path": inputs.model,
        "actor_rollout_ref.model.tokenizer_path": inputs.tokenizer,
    }
    values.update(_cpu(config) if config.engine.device == "cpu" else _gpu(config, options))
    return values


def _data(config: RunConfig, inputs: Inputs) -> dict[str, Any]:
    training = config.training
    generated = config.data.source == "generated"
    values = {
        "data.train_files": str(inputs.training),
        "data.val_files": str(inputs.held_out),
        "data.train_batch_size": config.prompts_per_step,
        "data.max_prompt_length": training.max_prompt_tokens,
        "data.max_response_length": training.max_response_tokens,
        "data.shuffle": not generated,  # generated prompts lie in the order in which they are used
        "data.seed": config.seed,
        "data.filter_overlong_prompts": not generated,
        "data.truncation": "error",
        "data.return_raw_chat": True,
    }
    if training.filter != "none":
        values["data.gen_batch_size"] = training.candidate_prompts
    return values


def _algorithm(config: RunConfig) -> dict[str, Any]:
    training = config.training
    reward_kl = training.reward_kl_methods == "summed" and training.reward_kl_coefficient != 0.0
    return {
        "algorithm.adv_estimator": estimator_name(config.method.name),
        "+algorithm.reward_keys": list(config.task.channels),
        "+algorithm.normalization": config.task.normalization,
        "+algorithm.method_parameters": dict(config.method.parameters),
        "+algorithm.reward_bounds": {name: [item.low, item.high] for name, item in config.task.channels.items()},
        "+algorithm.method_file": config.method.file,
        # The penalty reaches the summed reward alone (see estimators); the others run beside the same reference.
        "algorithm.use_kl_in_reward": reward_kl,
        "algorithm.kl_penalty": "kl",
        "algorithm.kl_ctrl.type": "fixed",
        "algorithm.kl_ctrl.kl_coef": training.reward_kl_coefficient,
    }


def _policy_loss(config: RunConfig) -> dict[str, Any]:
    loss, actor = config.policy_loss, "actor_rollout_ref.actor"
    values: dict[str, Any] = {
        f"{actor}.policy_loss.loss_mode": RATIOS[loss.ratio],
        f"{actor}.loss_agg_mode": REDUCTIONS[loss.reduction],
        f"{actor}.clip_ratio": loss.clip_low,
        f"{actor}.clip_ratio_low": loss.clip_low,
        f"{actor}.clip_ratio_high": loss.clip_high,
    }
    if loss.reduction == "constant_length":
        values[f"{actor}.loss_scale_factor"] = config.training.max_response_tokens
    return values


def _actor(config: RunConfig, options: Options) -> dict[str, Any]:
    training, actor, ref = config.training, "actor_rollout_ref.actor", "actor_rollout_ref.ref"
    prompts = config.prompts_per_step // training.updates_per_step
    micro = math.gcd(_mini_batch(config), max(1, _mini_batch(config) // MICRO_BATCH_SHARE))
    return {
        f"{actor}.ppo_mini_batch_size": prompts,
        f"{actor}.ppo_micro_batch_size_per_gpu": micro,
        f"{actor}.ppo_max_token_len_per_gpu": options.tokens_per_gpu,
        f"{actor}.ppo_epochs": 1,
        f"{actor}.entropy_coeff": training.entropy_coefficient,
        f"{actor}.calculate_entropy": True,
        f"{actor}.use_kl_loss": training.loss_kl_coefficient != 0.0,
        f"{actor}.kl_loss_coef": training.loss_kl_coefficient,
        f"{actor}.kl_loss_type": LOSS_KL_TYPES[training.loss_kl_type],
        f"{actor}.grad_clip": training.gradient_clip,
        f"{actor}.data_loader_seed": config.seed,
        f"{actor}.optim.lr": training.learning_rate,
        f"{actor}.optim.clip_grad": training.gradient_clip,
        f"{actor}.optim.weight_decay": training.weight_decay,
        f"{actor}.optim.lr_scheduler_type": "constant",
        f"{actor}.optim.lr_warmup_steps": 0,
        f"{actor}.fsdp_config.seed": config.seed,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{ref}.log_prob_micro_batch_size_per_gpu": micro,
    }


def _mini_batch(config: RunConfig) -> int:
    """Responses of one optimizer update on one worker."""
    return config.training.responses_per_step // config.training.updates_per_step // world_size(config)


def _rollout(config: RunConfig, options: Options) -> dict[str, Any]:
    training, rollout = config.training, "actor_rollout_ref.rollout"
    return {
        f"{rollout}.name": options.rollout,
        f"{rollout}.n": config.group_size,
        f"{rollout}.temperature": training.temperature,
        f"{rollout}.top_p": training.top_p,
        f"{rollout}.top_k": -1,
        f"{rollout}.seed": config.seed,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.max_num_seqs": options.max_sequences,
        # A filtered step is padded to whole mini-batches: what divides those divides every step.
        f"{rollout}.log_prob_micro_batch_size_per_gpu": _mini_batch(config),
        f"{rollout}.calculate_log_probs": True,
        f"{rollout}.agent.num_workers": options.agent_workers,
        f"{rollout}.val_kwargs.n": 1,
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": training.temperature,
        f"{rollout}.val_kwargs.top_p": training.top_p,
        "reward.num_workers": options.reward_workers,
        "reward.reward_manager.source": "importlib",
        "reward.reward_manager.name": "ChannelRewardManager",
        "reward.reward_manager.module.path": "pkg://harness.engines.verl.rewards",
    }


def _trainer(config: RunConfig, run: Path) -> dict[str, Any]:
    training = config.training
    return {
        "trainer.device": config.engine.device,
        "trainer.nnodes": config.engine.nodes,
        "trainer.n_gpus_per_node": workers_per_node(config),
        "trainer.use_v1": True,
        "trainer.v1.trainer_mode": "sync",
        "trainer.critic_warmup": 0,
        "critic.enable": False,
        "trainer.logger": ["console"],
        "trainer.project_name": "dara",
        "trainer.experiment_name": run.name,
        "trainer.total_training_steps": training.steps,
        "trainer.total_epochs": training.steps,  # never what ends the run: a step is at least one epoch's last
        "trainer.val_before_train": True,
        "trainer.test_freq": training.evaluate_every,
        "trainer.save_freq": config.output.checkpoint_every,
        "trainer.default_local_dir": str(run / "checkpoints"),
        "trainer.max_actor_ckpt_to_keep": None,  # pruned after the new one is whole, not before
        "trainer.resume_mode": "auto",
        "trainer.rollout_data_dir": str(run / "rollouts"),
    }


def _sampler(config: RunConfig) -> dict[str, Any]:
    training, sampler = config.training, "trainer.v1.sampler"
    return {
        f"{sampler}.custom_sampler.path": "pkg://harness.engines.verl.sampler",
        f"{sampler}.custom_sampler.name": "GroupSampler",
        f"+{sampler}.sampler_kwargs.filter": training.filter,
        f"+{sampler}.sampler_kwargs.channels": list(config.task.channels),
        f"+{sampler}.sampler_kwargs.needed": config.prompts_per_step,
        f"+{sampler}.sampler_kwargs.candidates": training.candidate_prompts,
        f"+{sampler}.sampler_kwargs.max_batches": training.max_generation_batches,
    }


def _recorder(config: RunConfig, options: Options, run: Path, attempt: int) -> dict[str, Any]:
    training, output = config.training, config.output
    section = {
        "run": str(run),
        "attempt": attempt,
        "channels": list(config.task.channels),
        "benchmark": held_out_benchmark(config),
        "steps": training.steps,
        "evaluate_every": training.evaluate_every,
        "rollouts_every": output.rollouts_every,
        "keep_checkpoints": output.keep_checkpoints,
        "keep_exports": options.keep_exports,
        "keep_for_evaluation": list(config.evaluation.at),
        "temperature": training.temperature,
        "top_p": training.top_p,
        "length_limit": config.data.length_limit,
        "length_exceeded": config.task.name == "maths",
    }
    return {f"+harness.{key}": value for key, value in section.items()}


def _gpu(config: RunConfig, options: Options) -> dict[str, Any]:
    actor, ref, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "actor_rollout_ref.rollout"
    precision = {"param_dtype": "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    values: dict[str, Any] = {
        f"{actor}.strategy": "fsdp",
        f"{actor}.use_dynamic_bsz": True,
        f"{actor}.fsdp_config.model_dtype": "fp32",
        f"+{actor}.fsdp_config.mixed_precision": precision,
        f"{actor}.fsdp_config.param_offload": False,
        f"{actor}.fsdp_config.optimizer_offload": False,
        f"{ref}.fsdp_config.param_offload": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        "actor_rollout_ref.model.use_remove_padding": True,
        f"{rollout}.gpu_memory_utilization": options.memory_fraction,
        f"{rollout}.dtype": "bfloat16",
    }
    if options.ray_address is not None:
        values["+ray_kwargs.ray_init.address"] = options.ray_address
    return values


def _cpu(config: RunConfig) -> dict[str, Any]:
    model = "actor_rollout_ref.model"
    precision = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    values: dict[str, Any] = {
        "+ray_kwargs.ray_init.num_gpus": world_size(config),  # logical: one for each worker
        "ray_kwargs.ray_init.num_cpus": 8 * (1 + world_size(config)),
        "+ray_kwargs.ray_init.include_dashboard": False,
        "+ray_kwargs.ray_init.object_store_memory": 512 * 2**20,
        "data.dataloader_num_workers": 0,
        "reward.num_workers": 0,  # the agent workers compute rewards themselves
        f"{model}.external_lib": "harness.engines.verl.cpu_rollout",
        "+actor_rollout_ref.rollout.agent.agent_loop_manager_class": "harness.engines.verl.cpu_agent.AgentLoopManager",
        f"+{model}.override_config.attn_implementation": "sdpa",
        f"{model}.use_remove_padding": False,
        f"{model}.enable_gradient_checkpointing": False,
        "actor_rollout_ref.actor.use_dynamic_bsz": True,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    for role in ("actor", "ref"):
        key = f"actor_rollout_ref.{role}"
        values |= {
            f"{key}.strategy": "fsdp2",
            f"{key}.use_torch_compile": False,
            f"{key}.fsdp_config.strategy": "fsdp2",
            f"{key}.fsdp_config.model_dtype": "fp32",
            f"{key}.fsdp_config.dtype": "float32",
            f"{key}.fsdp_config.use_torch_compile": False,
            f"+{key}.fsdp_config.mixed_precision": precision,
        }
    return values


def environment(config: RunConfig) -> dict[str, str]:
    """Environment variables of every process of the run, beside the inherited ones."""
    modules = ["harness.engines.verl.plugin"]
    values = {
        "TOKENIZERS_PARALLELISM": "false",
        "HYDRA_FULL_ERROR": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DEDUP_LOGS": "0",
        "RAY_worker_niceness": "0",  # Ray gives its workers the lowest share of a busy machine
        "VERL_USE_EXTERNAL_PLUGINS": "auto",
    }
    if config.engine.device == "cpu":
        modules.insert(0, "harness.engines.verl.cpu_platform")
        values |= {
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",
            "OMP_NUM_THREADS": "1",
            "TQ_NUM_THREADS": "1",  # more than there are processors is a line in the log for each of its calls
            # No idle workers in advance: one for each logical CPU is what starting up would mostly be about.
            "RAY_prestart_worker_first_driver": "0",
            "RAY_enable_worker_prestart": "0",
        }
    return {**values, "VERL_USE_EXTERNAL_MODULES": ",".join(modules)}

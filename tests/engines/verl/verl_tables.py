"""Tables 6, 8 and 9 of the paper as verl's own keys."""

from __future__ import annotations

ACTOR, ROLLOUT, REF = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
DERIVED = (f"{ROLLOUT}.log_prob_max_token_len_per_gpu", f"{REF}.log_prob_max_token_len_per_gpu")
"""What verl itself takes from the actor's settings."""

PRECISION = {"param_dtype": "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}

BOTH = {
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_penalty": "kl",
    f"{ACTOR}.strategy": "fsdp",
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.optim.lr": 1e-6,
    f"{ACTOR}.optim.clip_grad": 1.0,
    f"{ACTOR}.grad_clip": 1.0,
    f"{ACTOR}.optim.lr_scheduler_type": "constant",
    f"{ACTOR}.loss_agg_mode": "token-mean",
    f"{ACTOR}.policy_loss.loss_mode": "vanilla",
    f"{ACTOR}.use_dynamic_bsz": True,
    f"{ACTOR}.ppo_max_token_len_per_gpu": 16384,
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu": 16384,
    f"{REF}.log_prob_max_token_len_per_gpu": 16384,
    f"{ACTOR}.fsdp_config.param_offload": False,
    f"{ACTOR}.fsdp_config.optimizer_offload": False,
    f"{ACTOR}.fsdp_config.model_dtype": "fp32",
    f"{ACTOR}.fsdp_config.mixed_precision": PRECISION,
    f"{REF}.fsdp_config.param_offload": True,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "actor_rollout_ref.model.use_remove_padding": True,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.dtype": "bfloat16",
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.temperature": 1.0,
    f"{ROLLOUT}.top_p": 1.0,
    f"{ROLLOUT}.top_k": -1,
    "trainer.nnodes": 1,
    "trainer.test_freq": 10,
    "trainer.save_freq": 10,
    "trainer.val_before_train": True,
}
"""Tables 6 and 9 alike."""

TABLE_6 = BOTH | {
    "data.max_prompt_length": 2048,
    "data.max_response_length": 1024,
    f"{ACTOR}.clip_ratio": 0.2,
    f"{ACTOR}.clip_ratio_low": 0.2,
    f"{ACTOR}.clip_ratio_high": 0.2,
    f"{ACTOR}.entropy_coeff": 0.001,
    f"{ACTOR}.use_kl_loss": False,
    "algorithm.use_kl_in_reward": True,
    "algorithm.kl_ctrl.kl_coef": 0.001,
    f"{ROLLOUT}.gpu_memory_utilization": 0.6,
    "trainer.total_training_steps": 100,
    "trainer.v1.sampler.sampler_kwargs.filter": "none",
    "algorithm.normalization": "token",
}

TABLE_8 = {4: (512, 128, 64), 8: (256, 64, 32), 16: (128, 32, 16), 32: (64, 16, 8)}
"""Group size -> prompts of a step, of a mini-batch, of a micro-batch."""

TABLE_9 = BOTH | {
    "data.train_batch_size": 512,
    "data.gen_batch_size": 768,
    "data.max_prompt_length": 1024,
    "data.max_response_length": 8000,
    "data.filter_overlong_prompts": True,
    f"{ACTOR}.ppo_mini_batch_size": 64,
    f"{ACTOR}.clip_ratio_low": 0.2,
    f"{ACTOR}.clip_ratio_high": 0.28,
    f"{ACTOR}.entropy_coeff": 0.0,
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.kl_loss_type": "mse",
    f"{ACTOR}.kl_loss_coef": 5e-4,
    "algorithm.use_kl_in_reward": False,
    "algorithm.normalization": "response",
    "algorithm.reward_keys": ["correctness", "length"],
    "harness.length_limit": 4000,
    f"{ROLLOUT}.n": 16,
    "trainer.v1.sampler.sampler_kwargs.filter": "sum",
    "trainer.v1.sampler.sampler_kwargs.needed": 512,
    "trainer.v1.sampler.sampler_kwargs.candidates": 768,
}

ROLLOUT_OF_TABLE_9 = {
    "r1-1.5b": (0.9, 256, 2),
    "r1-7b": (0.8, 160, 4),
    "qwen3-4b": (0.8, 160, 4),
    "qwen3-4b-thinking": (0.8, 160, 4),
}
"""Memory share, sequences at once, cap on generation batches."""

"""Which runs get the KL penalty in their reward; the same for every engine."""

from __future__ import annotations

from harness.config import RunConfig

SUMMED_REWARD_METHODS = ("grpo", "dr_grpo")
"""The methods that read one reward a response: the sum, after the KL penalty if there is one (arXiv 2610.00574 runs
them so). All others read the raw channels and never see KL; that includes saw_grpo and mo_grpo, which weight the
channels first."""


def sees_reward_kl(config: RunConfig) -> bool:
    """Whether this run's method gets the KL penalty in its reward."""
    training = config.training
    return (
        training.reward_kl_coefficient != 0.0
        and training.reward_kl_methods == "summed"
        and config.method.name in SUMMED_REWARD_METHODS
    )

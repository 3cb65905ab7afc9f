"""The policy of the local engine: network, layout of a batch, sampler and Hugging Face checkpoint under one name."""

from harness.engines.local.huggingface import load_policy, save_policy
from harness.engines.local.network import Policy, PolicySpec
from harness.engines.local.packing import PackedBatch, pack
from harness.engines.local.sampling import Rollout, sample

__all__ = ["PackedBatch", "Policy", "PolicySpec", "Rollout", "load_policy", "pack", "sample", "save_policy"]

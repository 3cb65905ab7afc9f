"""A ``cpu`` platform for verl, through verl's own platform registry, so that a run needs no accelerator.

Loaded in every verl process by ``VERL_USE_EXTERNAL_MODULES=harness.engines.verl.cpu_platform`` together with
``VERL_PLATFORM=cpu`` and ``VERL_ENGINE_DEVICE=cuda`` (the FSDP engine is registered for accelerators only; the name
selects the engine, not a device). Deliberately holds nothing that Ray has to unpickle: a process that imported this
module before verl would find the platform unregistered.

Beyond the platform it fills four gaps of a CPU: memory counters that ``torch.cpu`` lacks, the process group's
backend (gloo once, not twice), no pinned memory for the offloaded reference policy, and log-probabilities of all tokens
at once (without a GPU's kernels verl goes through them one by one, to save memory; it still does where that is much).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

AT_ONCE = 1 << 26
"""Logits (tokens x words) whose log-probabilities are computed together: 256 MiB in float32."""


def _peak_memory(*_args: Any, **_kwargs: Any) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None


def _zero(*_args: Any, **_kwargs: Any) -> int:
    return 0


_MEMORY_FUNCTIONS = {
    "empty_cache": _nothing,
    "ipc_collect": _nothing,
    "reset_peak_memory_stats": _nothing,
    "memory_allocated": _zero,
    "memory_reserved": _zero,
    "max_memory_allocated": _peak_memory,
    "max_memory_reserved": _peak_memory,
    "manual_seed": torch.manual_seed,
    "manual_seed_all": torch.manual_seed,
    "get_rng_state": lambda *_args, **_kwargs: torch.get_rng_state(),
    "set_rng_state": lambda state, *_args, **_kwargs: torch.set_rng_state(state),
    "get_device_name": lambda *_args, **_kwargs: "CPU",
}


@PlatformRegistry.register(platform="cpu")
class CPUPlatform(PlatformBase):
    """The host's processor as a verl platform; Ray's logical GPU resource stands for one worker."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = torch.cpu

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, float]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


def _fill_gaps() -> None:
    for name, function in _MEMORY_FUNCTIONS.items():
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, function)

    import torch.distributed.fsdp as fsdp
    from verl.utils import distributed, torch_functional

    one_by_one, at_once = torch_functional.logprobs_from_logits_v2, torch_functional.logprobs_from_logits_naive

    def log_probabilities(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (at_once if logits.numel() <= AT_ONCE else one_by_one)(logits, labels)

    torch_functional.logprobs_from_logits_v2 = log_probabilities

    start_group = distributed.initialize_global_process_group_ray

    def start_gloo_group(timeout_second: int | None = None, backend: str | None = None) -> Any:
        return start_group(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    distributed.initialize_global_process_group_ray = start_gloo_group

    offload = fsdp.CPUOffloadPolicy.__init__

    def offload_without_pinning(self: Any, pin_memory: bool = False) -> None:
        offload(self, pin_memory=False)

    setattr(fsdp.CPUOffloadPolicy, "__init__", offload_without_pinning)  # noqa: B010


if os.environ.get("VERL_PLATFORM", "").lower() == "cpu":
    _fill_gaps()

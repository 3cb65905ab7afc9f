"""Before a run of this engine takes GPUs: packages, GPUs and memory against the model, verl's verdict on the
configuration, a dry batch through rewards and estimator, disk, Ray. Used by ``python -m harness doctor``."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from harness.config import RunConfig
from harness.engines.verl import compatibility, mapping, storage
from harness.engines.verl.options import options_of
from harness.errors import UserError
from harness.launch.findings import Finding

GIGABYTE = 1e9
BYTES_TRAINED = 16
"""A parameter in training: float32 weight, gradient and two moments of Adam."""
BYTES_SERVED = 2
PROBE_SECONDS = 300
GPU_SECONDS = 60
SHARED_MEMORY = 2.0
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
PACKAGES = ("verl", "ray", "TransferQueue", "tensordict", "torch", "transformers")
_PROBE = "ANSWER "


def diagnose(config: RunConfig, run: Path | None) -> list[Finding]:
    """Every finding of this engine about a run."""
    try:
        mapping.check(config)
    except UserError as error:
        return [Finding("problem", "settings", str(error), "change the setting that is named")]
    findings = _packages(config)
    if run is not None:
        findings += _resumed(config, run)
    parameters = _model_parameters(config)
    if config.engine.device == "cuda":
        findings += [*_gpus(config, parameters), _shared_memory()]
    findings += [_checkpoints(config, run, parameters), _ray(config)]
    if not any(finding.level == "problem" and finding.subject == "packages" for finding in findings):
        findings += probe(config)
    return findings


def _packages(config: RunConfig) -> list[Finding]:
    wanted = [*PACKAGES, *(["vllm"] if options_of(config).rollout == "vllm" else [])]
    versions, missing = [], []
    for name in wanted:
        try:
            versions.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    findings = []
    if missing:
        remedy = "pip install -e '.[verl]'" + (" and a vllm build for your CUDA" if "vllm" in missing else "")
        findings.append(Finding("problem", "packages", f"not installed: {', '.join(missing)}", remedy))
    if versions:
        findings.append(Finding("ok", "packages", ", ".join(versions)))
    found = compatibility.installed_version()
    if found not in (None, compatibility.VERIFIED):
        remedy = f"pip install verl=={compatibility.VERIFIED}"
        findings.append(Finding("note", "packages", f"verl {found} was not checked with this engine", remedy))
    return findings


def _model_parameters(config: RunConfig) -> int | None:
    """Number of parameters, from the weights if they are on this machine."""
    if config.model.path is None:
        return None
    folder = Path(config.model.path)
    if not folder.is_dir():
        root = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface")) / "hub"
        name = "models--" + config.model.path.replace("/", "--")
        snapshots = sorted((root / name / "snapshots").glob("*")) if (root / name).is_dir() else []
        if not snapshots:
            return None
        folder = snapshots[-1]
    size = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    return size // BYTES_SERVED or None


def _gpus(config: RunConfig, parameters: int | None) -> list[Finding]:
    needed = config.engine.gpus_per_node
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return [
            Finding("problem", "GPUs", "nvidia-smi is not there, no NVIDIA GPU seen", "start on a GPU node, or set "
                    "engine.device=cpu with the pocket model")
        ]  # fmt: skip
    answer = _answer([tool, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"], GPU_SECONDS)
    if answer is None:
        text = f"nvidia-smi did not answer within {GPU_SECONDS} s"
        return [Finding("problem", "GPUs", text, "the driver hangs: take another node, have this one rebooted")]
    gpus = [line.rsplit(",", 1) for line in answer.stdout.splitlines() if line.count(",")]
    if len(gpus) < needed:
        text = f"{len(gpus)} GPU(s) on this node, engine.gpus_per_node={needed}"
        return [Finding("problem", "GPUs", text, "ask for more GPUs, or lower engine.gpus_per_node")]
    memory = min(float(total) for _, total in gpus) * 2**20 / GIGABYTE
    found = Finding("ok", "GPUs", f"{len(gpus)} x {gpus[0][0].strip()}, {memory:.0f} GB each")
    if parameters is None:
        offline = any(os.environ.get(name, "0") not in ("", "0") for name in OFFLINE)
        text = f"{config.model.path} is not on this machine" + (", which is told to be offline" if offline else "")
        return [found, Finding("problem" if offline else "note", "model", text, _download(config))]
    options = options_of(config)
    training = parameters * BYTES_TRAINED / mapping.world_size(config) / GIGABYTE
    serving = parameters * BYTES_SERVED / GIGABYTE
    room = memory * options.memory_fraction - serving
    text = (
        f"{parameters / 1e9:.2f}e9 parameters: {training:.1f} GB of training state and {serving:.1f} GB of served "
        f"weights on each GPU, {room:.1f} GB for the rollout's cache"
    )
    if training > memory or room < 1.0:
        return [found, Finding("problem", "memory", text, "use more GPUs or larger ones, or a smaller model")]
    return [found, Finding("ok", "memory", text)]


def _download(config: RunConfig) -> str:
    return f"download it first (huggingface-cli download {config.model.path}); compute nodes often have no network"


def _shared_memory() -> Finding:
    free = shutil.disk_usage("/dev/shm").free / GIGABYTE if Path("/dev/shm").is_dir() else 0.0
    if free < SHARED_MEMORY:
        return Finding(
            "problem", "shared memory", f"/dev/shm has {free:.2f} GB free", "raise it (--shm-size) or free it"
        )
    return Finding("ok", "shared memory", f"/dev/shm has {free:.1f} GB free")


def _checkpoints(config: RunConfig, run: Path | None, parameters: int | None) -> Finding:
    if parameters is None:
        return Finding("ok", "checkpoints", "size of the model not known here")
    options, output, training = options_of(config), config.output, config.training
    every = {*range(training.evaluate_every, training.steps, training.evaluate_every), training.steps}
    evaluated = set(config.evaluation.at) - {0}
    exports = len(every | evaluated) if options.keep_exports is None else options.keep_exports + len(evaluated)
    shards = (1 + output.keep_checkpoints) * parameters * (BYTES_TRAINED - 4)
    needed = (shards + (1 + exports) * parameters * 4) / GIGABYTE
    folder = (run or Path(output.runs)).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / GIGABYTE
    text = (
        f"up to {needed:.0f} GB for {output.keep_checkpoints} checkpoint(s) and {exports} export(s), {free:.0f} GB free"
    )
    if free < needed:
        return Finding(
            "problem", "checkpoints", text, "free space, or bound the exports: engine.options.keep_exports=1"
        )
    return Finding("ok", "checkpoints", text)


def _resumed(config: RunConfig, run: Path) -> list[Finding]:
    """Whether the run can continue from its checkpoint, if it has one."""
    checkpoints = run / "checkpoints"
    step = storage.latest_step(checkpoints)
    if step == 0:
        return []
    try:
        storage.require_world_size(checkpoints, mapping.world_size(config))
    except UserError as error:
        return [Finding("problem", "checkpoint", str(error), "see there")]
    return [Finding("ok", "checkpoint", f"continues from step {step}")]


def _ray(config: RunConfig) -> Finding:
    address = options_of(config).ray_address or os.environ.get("RAY_ADDRESS")
    if config.engine.nodes > 1 and not address:
        return Finding(
            "problem",
            "Ray",
            f"engine.nodes={config.engine.nodes} needs a running Ray cluster",
            "start it (ray start --head, then --address on the others), set engine.options.ray_address or RAY_ADDRESS",
        )
    if not address or address == "auto":
        return Finding("ok", "Ray", "started by the run itself" if not address else "found by Ray (auto)")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        return Finding(
            "problem", "Ray", f"{address} does not answer ({error})", "start Ray there, or correct the address"
        )
    return Finding("ok", "Ray", f"{address} answers")


def probe(config: RunConfig) -> list[Finding]:
    """What only a process with verl in it can tell: :mod:`harness.engines.verl.probe`."""
    from harness.compose import run_config_to_mapping

    answer = _answer(
        [sys.executable, "-W", "ignore", "-m", "harness.engines.verl.probe"],
        PROBE_SECONDS,
        given=json.dumps(run_config_to_mapping(config)),
        environment=mapping.environment(config),
    )
    if answer is None:
        text = f"verl was not imported within {PROBE_SECONDS} s"
        return [Finding("problem", "verl", text, "try again on an idle machine; check the file system of the packages")]
    lines = [line for line in answer.stdout.splitlines() if line.startswith(_PROBE)]
    if not lines:
        last = (answer.stderr.strip().splitlines() or ["no output"])[-1]
        return [Finding("problem", "verl", f"verl cannot be used: {last}", "reinstall: pip install -e '.[verl]'")]
    return [Finding(**item) for item in json.loads(lines[-1].removeprefix(_PROBE))]


def _answer(
    command: list[str], seconds: float, *, given: str | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str] | None:
    """What a program says to ``given``, with ``environment`` added to ours; None where that takes over ``seconds``."""
    try:
        return subprocess.run(
            command,
            input=given,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None

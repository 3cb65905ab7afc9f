"""A policy as an ordinary Hugging Face checkpoint: config.json, generation_config.json, model.safetensors, tokenizer
files.

Written and read with ``safetensors`` and ``json`` alone: importing ``transformers`` would cost a worker several
seconds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from harness.engines.local.network import NORM_EPS, Policy, PolicySpec
from harness.errors import UserError


class SavableTokenizer(Protocol):
    """What a checkpoint needs of a tokenizer; ``pad_id`` may be None."""

    @property
    def eos_id(self) -> int: ...

    @property
    def pad_id(self) -> int | None: ...

    def save_pretrained(self, folder: Any) -> Any: ...


def save_policy(policy: Policy, tokenizer: SavableTokenizer, folder: Path) -> None:
    """Write the checkpoint into ``folder`` (made if absent, files replaced). The embedding is stored once (tied
    head)."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    spec = policy.spec
    special = {"bos_token_id": None, "eos_token_id": tokenizer.eos_id, "pad_token_id": tokenizer.pad_id}
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "dtype": "float32",
        "torch_dtype": "float32",
        "vocab_size": spec.vocab_size,
        "hidden_size": spec.hidden_size,
        "intermediate_size": spec.intermediate_size,
        "num_hidden_layers": spec.layers,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_size,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_theta": spec.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": spec.rope_theta},
        "max_position_embeddings": spec.max_positions,
        "tie_word_embeddings": True,
        "attention_dropout": 0.0,
        "use_sliding_window": False,
        "sliding_window": None,
        "use_cache": True,
        **special,
    }
    generation = {**special, "do_sample": True, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    tokenizer.save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(save(_to_huggingface(policy), metadata={"format": "pt"}))


def load_policy(folder: Path, device: torch.device | str = "cpu") -> Policy:
    """Read a checkpoint of the family :func:`save_policy` writes. UserError names what is absent or not supported."""
    folder = Path(folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = load_file(str(folder / "model.safetensors"))
    except (OSError, ValueError, SafetensorError) as error:
        raise UserError(
            f"{folder}: cannot read the checkpoint ({error}); delete the folder to build it anew"
        ) from error
    try:
        policy = Policy(_spec(config, folder), generator=None)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / 'config.json'}: not a policy of this engine ({error!r}); build it anew") from error
    try:
        policy.load_state_dict(_from_huggingface(weights, policy.spec), strict=True)
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{folder / 'model.safetensors'}: weights do not fit config.json ({reason})") from error
    return policy.to(device)


def _spec(config: dict[str, Any], folder: Path) -> PolicySpec:
    rope = config.get("rope_parameters") or {}
    unsupported = {
        "model_type": config.get("model_type") != "qwen2",
        "tie_word_embeddings": not config.get("tie_word_embeddings", False),
        "rope_parameters": rope.get("rope_type", "default") != "default" or bool(config.get("rope_scaling")),
        "use_sliding_window": bool(config.get("use_sliding_window", False)),
        "rms_norm_eps": config.get("rms_norm_eps") != NORM_EPS,
    }
    for key, wrong in unsupported.items():
        if wrong:
            raise UserError(f"{folder / 'config.json'}: {key}={config.get(key)!r} is not supported by engine=local")
    heads = config["num_attention_heads"]
    return PolicySpec(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=heads,
        kv_heads=config["num_key_value_heads"],
        intermediate_size=config["intermediate_size"],
        head_size=config.get("head_dim") or config["hidden_size"] // heads,
        rope_theta=float(rope.get("rope_theta", config.get("rope_theta", 10000.0))),
        max_positions=config["max_position_embeddings"],
    )


def _to_huggingface(policy: Policy) -> dict[str, Tensor]:
    spec = policy.spec
    sizes = [spec.heads * spec.head_size, spec.kv_heads * spec.head_size, spec.kv_heads * spec.head_size]
    tensors: dict[str, Tensor] = {"model.embed_tokens.weight": policy.embedding, "model.norm.weight": policy.final_norm}
    for index, layer in enumerate(policy.layers):
        prefix = f"model.layers.{index}."
        for name, weight, bias in zip("qkv", layer.qkv.split(sizes), layer.qkv_bias.split(sizes), strict=True):
            for kind, tensor in (("weight", weight), ("bias", bias)):
                rows = tensor if name == "v" else _halves(tensor, spec.head_size)
                tensors[f"{prefix}self_attn.{name}_proj.{kind}"] = rows
        gate, up = layer.gate_up.chunk(2)
        tensors[f"{prefix}self_attn.o_proj.weight"] = layer.output
        tensors[f"{prefix}mlp.gate_proj.weight"] = gate
        tensors[f"{prefix}mlp.up_proj.weight"] = up
        tensors[f"{prefix}mlp.down_proj.weight"] = layer.down
        tensors[f"{prefix}input_layernorm.weight"] = layer.attention_norm
        tensors[f"{prefix}post_attention_layernorm.weight"] = layer.mlp_norm
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _from_huggingface(tensors: dict[str, Tensor], spec: PolicySpec) -> dict[str, Tensor]:
    state = {"embedding": tensors["model.embed_tokens.weight"], "final_norm": tensors["model.norm.weight"]}
    for index in range(spec.layers):
        source, target = f"model.layers.{index}.", f"blocks.{index}."
        for kind, name in (("weight", "qkv"), ("bias", "qkv_bias")):
            query, key, value = (tensors[f"{source}self_attn.{letter}_proj.{kind}"] for letter in "qkv")
            state[target + name] = torch.cat([_pairs(query, spec.head_size), _pairs(key, spec.head_size), value])
        state[target + "output"] = tensors[source + "self_attn.o_proj.weight"]
        state[target + "gate_up"] = torch.cat([tensors[f"{source}mlp.{name}_proj.weight"] for name in ("gate", "up")])
        state[target + "down"] = tensors[source + "mlp.down_proj.weight"]
        state[target + "attention_norm"] = tensors[source + "input_layernorm.weight"]
        state[target + "mlp_norm"] = tensors[source + "post_attention_layernorm.weight"]
    return {name: tensor.float() for name, tensor in state.items()}


def _pairs(tensor: Tensor, head_size: int) -> Tensor:
    """Rows of each head from two halves to alternating: what rotary embedding turns together stands together."""
    return tensor.view(-1, 2, head_size // 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def _halves(tensor: Tensor, head_size: int) -> Tensor:
    """The inverse of :func:`_pairs`."""
    return tensor.view(-1, head_size // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)

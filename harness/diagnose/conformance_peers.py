"""verl's and TRL's own code on a golden batch, where they are installed."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.diagnose.conformance_batches import CHANNELS, Golden

Floats = NDArray[np.float64]


class NotExpressible(Exception):
    """The implementation cannot be given this batch; the message says why."""


@dataclass(frozen=True)
class Peer:
    """run(method, golden) -> advantages [N], one per response (on its valid tokens)."""

    name: str
    version: str
    run: Callable[[str, Golden], Floats]


@contextlib.contextmanager
def peers() -> Iterator[tuple[list[Peer], dict[str, str]]]:
    """The implementations that can be run here, and why each of the others cannot."""
    found: list[Peer] = []
    absent: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for name, package, start in (("verl", "verl", _verl), ("TRL", "trl", _trl)):
            try:
                version = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:  # also where a folder happens to have the package's name
                absent[name] = "not installed"
                continue
            try:
                run = stack.enter_context(start())
            except Exception as error:  # whatever another package raises while it starts
                reason = (str(error).splitlines() or [""])[0]
                absent[name] = f"installed, but does not start ({type(error).__name__}: {reason})"
                continue
            found.append(Peer(name, version, run))
        yield found, absent


@contextlib.contextmanager
def _verl() -> Iterator[Callable[[str, Golden], Floats]]:
    import torch

    algorithms = importlib.import_module("verl.trainer.ppo.core_algos")

    def run(method: str, golden: Golden) -> Floats:
        lengths = torch.tensor(golden.lengths)
        width = int(lengths.max())
        mask = (torch.arange(width)[None, :] < lengths[:, None]).float()
        rewards = np.array(golden.rewards, dtype=np.float32)
        last = (torch.arange(len(lengths)), lengths - 1)
        tokens = torch.zeros(len(lengths), width)
        tokens[last] = torch.tensor(rewards.sum(axis=1))
        arguments: dict[str, Any] = {
            "token_level_rewards": tokens,
            "response_mask": mask,
            "index": np.array(golden.labels, dtype=object),
        }
        if method == "grpo":
            advantages, _ = algorithms.compute_grpo_outcome_advantage(**arguments)
        else:
            advantages, _ = algorithms.compute_gdpo_outcome_advantage(
                **arguments,
                config={"gdpo_reward_keys": list(CHANNELS), "gdpo_reward_weights": None},
                non_tensor_batch={name: rewards[:, place] for place, name in enumerate(CHANNELS)},
                batch={
                    "prompts": torch.zeros(len(lengths), 1, dtype=torch.long),
                    "attention_mask": torch.cat([torch.ones(len(lengths), 1), mask], dim=1).long(),
                },
            )
        return np.asarray(advantages[last].double().numpy())

    yield run


@contextlib.contextmanager
def _trl() -> Iterator[Callable[[str, Golden], Floats]]:
    """TRL's trainer on a random model of a few hundred weights, its reward functions answering from the batch."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    trainers: dict[str, Any] = {}
    current: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:

        def run(method: str, golden: Golden) -> Floats:
            if not golden.even:
                raise NotExpressible("groups have one size")
            if golden.tokens:
                raise NotExpressible("advantages do not depend on lengths")
            if method not in trainers:
                trainers[method] = _trl_trainer(method, folder, current)
            trainer = trainers[method]
            trainer.num_generations = len(golden.groups[0])
            current["rewards"] = golden.rewards
            inputs = [{"prompt": label} for label in golden.labels]
            advantages = trainer._generate_and_score_completions(inputs)["advantages"]
            return np.asarray(advantages.double().reshape(-1).numpy())

        yield run


def _trl_trainer(method: str, folder: str, current: dict[str, Any]) -> Any:
    from datasets import Dataset
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
    from trl import GRPOConfig, GRPOTrainer

    words = {word: place for place, word in enumerate(["<pad>", "<end>", "<unk>", "prompt", *map(str, range(10))])}
    raw = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment,unused-ignore]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="<end>", unk_token="<unk>", padding_side="left"
    )
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(words),
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=None,
        )
    )

    def reward(place: int) -> Callable[..., list[float | None]]:
        def function(prompts: Any, completions: Any, **_: Any) -> list[float | None]:
            return [row[place] for row in current["rewards"]]

        function.__name__ = CHANNELS[place]
        return function

    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        reward_funcs=[reward(place) for place in range(len(CHANNELS))],
        args=GRPOConfig(
            output_dir=folder,
            num_generations=2,
            per_device_train_batch_size=2,
            max_completion_length=2,
            multi_objective_aggregation="sum_then_normalize" if method == "grpo" else "normalize_then_sum",
            scale_rewards="group",
            beta=0.0,
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_list([{"prompt": "prompt 0"}, {"prompt": "prompt 1"}]),
    )
    trainer.model.train()
    return trainer

"""A Qwen2 model of random weights, a byte tokenizer and a data set of sums: ``python make_toy.py FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_model(folder: Path) -> None:
    words = ["<|endoftext|>", "<|im_end|>", "<|im_start|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({word: number for number, word in enumerate(words)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder.parent / "tokenizer")  # without config.json beside it: docs/deviations.md
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=128,
        eos_token_id=1,
        pad_token_id=0,
        bos_token_id=None,
        initializer_range=0.2,
    )
    Qwen2ForCausalLM(config).save_pretrained(folder)


def make_data(folder: Path) -> None:
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, 10, (64, 2)).tolist()
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{a}+{b}"}],
            "reward_model": {"style": "rule", "ground_truth": str(a + b)},
            "extra_info": {"index": number},
        }
        for number, (a, b) in enumerate(pairs)
    ]
    pandas.DataFrame(rows).to_parquet(folder / "train.parquet")
    pandas.DataFrame(rows[:8]).to_parquet(folder / "val.parquet")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    make_model(target / "model")
    make_data(target)

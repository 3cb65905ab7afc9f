"""A model's tokenizer and chat template, shared by the backends that render prompts themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.evaluation.sampling import Message, Sampling, template_hash

_PROBE = "What is 12 + 30? Find the weather in Paris."


class Chat:
    """Messages to tokens and tokens to text. UserError for a model without a chat template."""

    def __init__(self, path: str, gguf: str | None = None) -> None:
        try:
            self.tokenizer: Any = _tokenizer(path, gguf)
        except Exception as error:
            remedy = "give another model=" if gguf is None else "install gguf and accelerate"
            raise UserError(f"model={path}: its tokenizer can't be loaded ({one_line(error)}); {remedy}") from error
        template = self.tokenizer.chat_template
        if template is None:
            raise UserError(
                f"model={path} has no chat template: take its instruction-tuned version, or put a chat_template.jinja "
                "into its folder"
            )
        _faithful(path, self.tokenizer)
        self.template_sha256 = template_hash(template if isinstance(template, str) else repr(template))

    def encode(self, messages: Sequence[Message]) -> list[int]:
        text = self.tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        """All text of the tokens: tags that some tokenizers call special are part of an answer."""
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=False))


def _tokenizer(path: str, gguf: str | None) -> Any:
    """``tokenizer.json`` as it is where the model's folder asks for that; else what transformers chooses.

    AutoTokenizer takes a tokenizer of its own for some kinds of models (``qwen2``, transformers 5) whatever
    ``tokenizer_config.json`` says, and with the words of another one it finds hardly a token.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    if gguf is not None:
        return AutoTokenizer.from_pretrained(path, gguf_file=gguf)
    if get_tokenizer_config(path).get("tokenizer_class") in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        return PreTrainedTokenizerFast.from_pretrained(path)
    return AutoTokenizer.from_pretrained(path)


def _faithful(path: str, tokenizer: Any) -> None:
    """UserError when a text comes back from the loaded tokenizer other than from the folder's ``tokenizer.json``."""
    file = Path(path) / "tokenizer.json"
    if not file.is_file():
        return
    from tokenizers import Tokenizer

    text = tokenizer.apply_chat_template([{"role": "user", "content": _PROBE}], tokenize=False)
    file_tokenizer = Tokenizer.from_file(str(file))
    known = file_tokenizer.decode(file_tokenizer.encode(text, add_special_tokens=False).ids, skip_special_tokens=False)
    found = tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"], skip_special_tokens=False)
    if "".join(found.split()) != "".join(known.split()):
        raise UserError(
            f"model={path}: transformers reads its tokenizer as {type(tokenizer).__name__}, which loses words that "
            f"{file.name} knows; set tokenizer_class to PreTrainedTokenizerFast in its tokenizer_config.json"
        )


def end_tokens(path: str | None, tokenizer: Any, configured: Any = None) -> frozenset[int]:
    """What ends an output: the tokenizer's end token and those of the model's generation configuration (given, or
    read from ``path``)."""
    if configured is None and path is not None:
        from transformers import GenerationConfig

        with contextlib.suppress(OSError):  # a model need not have one
            configured = GenerationConfig.from_pretrained(path)
    found = getattr(configured, "eos_token_id", None)
    tokens = [*(found if isinstance(found, list) else [found]), tokenizer.eos_token_id]
    return frozenset(int(token) for token in tokens if token is not None)


def room(sampling: Sampling, prompt_tokens: int, model_context: int | None) -> int:
    """Tokens that an output may have; at most 0 when the prompt leaves no room."""
    limits = [limit for limit in (sampling.context, model_context) if limit is not None]
    return min([sampling.max_new_tokens, *(limit - prompt_tokens for limit in limits)])


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def located(path: str) -> tuple[str, str | None]:
    """(what transformers loads from, GGUF file name): a hub name, a folder, or a ``.gguf`` file."""
    place = Path(path)
    if place.suffix == ".gguf":
        if not place.is_file():
            raise UserError(f"model={path} does not exist; give a folder, a .gguf file or a hub name")
        return str(place.parent), place.name
    if not place.is_dir() and (path.startswith((".", "/", "~")) or path.count("/") > 1):
        raise UserError(f"model={path} does not exist; give a folder, a .gguf file or a hub name")
    return path, None

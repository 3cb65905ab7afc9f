"""Tokenizers of the pocket models: the list of all pieces of the generated text, stored as Hugging Face does.

A space belongs to the word after it, but never to a number or to a quoted value: ``Oslo`` and ``7`` are the same
tokens in a query and in a call, which is what a small model can copy. ``transformers``, slow to import, is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from harness.errors import UserError

PAD, EOS, SEPARATOR, UNKNOWN = "<pad>", "<eos>", "<sep>", "<unk>"
SPECIAL = (PAD, EOS, SEPARATOR, UNKNOWN)
TAGS = ("<think>", "</think>", "<tool_call>", "</tool_call>")

# Alternatives, first match wins. The first three are the parts of a call that carry no choice, or one: a token each. A
# parameter's name and its colon are one token, so that the token before a value says which value is wanted.
TOOL_CALLING_PIECES = "|".join(
    [
        r'\{"name": "',
        r'", "(?:parameters|arguments)": \{',
        r'"[a-z]+": (?:"|(?=[0-9]))',
        r'"?, (?=")',
        r" (?=\{)",
        r"\n",
        r" ?[A-Za-z_]+",
        r"[0-9]+",
        r"[^A-Za-z0-9\n]*[^A-Za-z0-9\n ]",
        r" ",
    ]
)
ARITHMETIC_PIECES = r"\\boxed\{| ?[A-Za-z]+|[0-9]| |[^A-Za-z0-9 ]"

# The user turn is the query; the separator asks for the answer.
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}"
    + SEPARATOR
    + "{{ message['content'] }}"
    + EOS
    + "{% else %}{{ message['content'] }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + SEPARATOR + "{% endif %}"
)


class PocketTokenizer:
    """Text to token ids and back. A prompt is its text and a separator; a response ends with EOS."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.eos_id: int = tokenizer.token_to_id(EOS)
        self.pad_id: int = tokenizer.token_to_id(PAD)
        self.separator_id: int = tokenizer.token_to_id(SEPARATOR)

    @classmethod
    def load(cls, folder: Path) -> PocketTokenizer:
        """Read ``tokenizer.json`` of a checkpoint; UserError if it can't be read."""
        path = Path(folder) / "tokenizer.json"
        try:
            return cls(Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except Exception as error:  # the library raises bare Exception on damaged files
            raise UserError(
                f"{path}: cannot read the tokenizer ({error}); delete the folder to build it anew"
            ) from error

    @classmethod
    def of(cls, texts: Iterable[str], pieces: str) -> PocketTokenizer:
        """The tokenizer that knows every piece (a regular expression) of ``texts``; others become ``<unk>``."""
        split = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pieces), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        known = {piece for text in texts for piece, _ in split.pre_tokenize_str(_without_tags(text))}
        words = [*SPECIAL, *TAGS, *sorted(known)]
        tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token=UNKNOWN))
        tokenizer.pre_tokenizer = split
        tokenizer.decoder = decoders.ByteLevel()
        tokenizer.add_special_tokens([*SPECIAL])
        tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in TAGS])
        return cls(tokenizer)

    @property
    def size(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def encode_prompt(self, text: str) -> list[int]:
        """What the chat template makes of a user turn ``text`` with a generation prompt."""
        return [*self.encode(text), self.separator_id]

    def encode_response(self, text: str) -> list[int]:
        return [*self.encode(text), self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids`` without padding, EOS and separator. ``decode(encode(text)) == text`` for generated text."""
        return str(self._tokenizer.decode([int(token) for token in ids], skip_special_tokens=True))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the files ``transformers.AutoTokenizer`` reads."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "pad_token": PAD,
            "eos_token": EOS,
            "bos_token": None,
            "unk_token": UNKNOWN,
            "clean_up_tokenization_spaces": False,
            "add_prefix_space": False,
            "model_max_length": 512,
            "chat_template": CHAT_TEMPLATE,
        }
        (folder / "tokenizer.json").write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        special = {"pad_token": PAD, "eos_token": EOS, "unk_token": UNKNOWN}
        (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n", encoding="utf-8")


def _without_tags(text: str) -> str:
    """``text`` with a line break, a piece of every tokenizer that has tags, for each tag."""
    for tag in TAGS:
        text = text.replace(tag, "\n")
    return text

"""Tokenizers: exact on everything a task can say, the same in ``transformers``, a value one token everywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.errors import UserError
from harness.pocket import arithmetic, recipe, tool_calling
from harness.pocket.task import Family, arithmetic_family, tool_calling_family
from harness.pocket.tokenizer import PocketTokenizer
from harness.pocket.words import PARAMETERS

FAMILIES = [tool_calling_family(recipe.TOOL_CALLING), arithmetic_family(recipe.ARITHMETIC)]


def generated(family: Family, count: int = 2000) -> list[str]:
    generator = np.random.default_rng(5)
    texts = [text for _ in range(count) for text in family.draw_pair(generator)]
    return texts + [family.draw_question(generator).reference for _ in range(count // 4)]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_decoding_is_exact_and_no_piece_is_unknown(family: Family) -> None:
    tokenizer = family.tokenizer()
    for text in generated(family):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert min(ids) > tokenizer.separator_id + 1, text  # <unk> follows the separator
        assert tokenizer.decode(tokenizer.encode_response(text)) == text


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_transformers_reads_the_same_tokens_and_the_chat_template_makes_the_prompt(
    family: Family, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    tokenizer = family.tokenizer()
    tokenizer.save_pretrained(tmp_path)
    theirs = AutoTokenizer.from_pretrained(str(tmp_path))
    assert (theirs.eos_token_id, theirs.pad_token_id) == (tokenizer.eos_id, tokenizer.pad_id)
    ours = PocketTokenizer.load(tmp_path)
    for text in generated(family, 100):
        ids = ours.encode(text)
        assert theirs(text, add_special_tokens=False)["input_ids"] == ids == tokenizer.encode(text)
        assert theirs.decode(ids, skip_special_tokens=True) == text
        chat = theirs.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )
        assert theirs(chat, add_special_tokens=False)["input_ids"] == ours.encode_prompt(text)


def test_a_value_is_the_same_token_in_a_query_and_in_a_call() -> None:
    tokenizer = FAMILIES[0].tokenizer()
    generator = np.random.default_rng(1)
    for _ in range(300):
        query = tool_calling.draw_query(generator)
        asked, said = set(tokenizer.encode_prompt(query.text)), set(tokenizer.encode(query.reference))
        for value in query.values.values():
            (token,) = tokenizer.encode(str(value))
            assert token in asked
            assert token in said


def test_every_value_is_one_token() -> None:
    tokenizer = FAMILIES[0].tokenizer()
    values = [str(value) for parameter in PARAMETERS.values() for value in parameter.values]
    assert all(len(tokenizer.encode(value)) == 1 for value in values)


def test_hostile_text_becomes_unknown_and_never_raises() -> None:
    tokenizer = FAMILIES[0].tokenizer()
    for text in ("", "\x00", "Ünïcode ☃", "<sep><eos><pad>", "{" * 1000):
        assert isinstance(tokenizer.decode(tokenizer.encode_prompt(text)), str)


def test_a_damaged_file_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(UserError, match=r"tokenizer\.json.*delete"):
        PocketTokenizer.load(tmp_path)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        PocketTokenizer.load(tmp_path / "absent")


def test_arithmetic_spells_numbers_digit_by_digit() -> None:
    tokenizer = FAMILIES[1].tokenizer()
    assert len(tokenizer.encode("123")) == 3
    assert len(tokenizer.encode(arithmetic.BOX)) == 1

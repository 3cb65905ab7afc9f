"""The material a run gives to verl: prompts as Parquet, a tokenizer that its exports load as it was."""

from __future__ import annotations

import json

import pandas
import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from harness.compose import CONF, Composer, register_methods
from harness.engines.verl import data, storage


@pytest.fixture(scope="module")
def task():
    from harness.pocket import pocket_task

    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        return pocket_task(Composer(GlobalHydra.instance().config_loader()).compose(["engine=verl"]))


def test_an_exported_tokenizer_loads_as_itself_beside_the_configuration_of_a_qwen2_model(task, tmp_path):
    from transformers import AutoTokenizer

    given, actor = tmp_path / "tokenizer", tmp_path / "global_step_1" / "actor"
    task.tokenizer.save_pretrained(given)
    # What verl does with each checkpoint.
    AutoTokenizer.from_pretrained(given).save_pretrained(actor / "huggingface")
    (actor / "huggingface" / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": 8}))
    (actor / "huggingface" / "model.safetensors").write_bytes(b"weights")
    storage.export(tmp_path, 1, keep=True, final=True, own_tokenizer=True)
    export = tmp_path / storage.FINAL

    prompt = task.training_prompts(0, 1, 1)[0]
    loaded = AutoTokenizer.from_pretrained(export)
    for text in (prompt.text, prompt.reference):
        tokens = task.tokenizer.encode(text)
        assert loaded(text, add_special_tokens=False)["input_ids"] == tokens
        assert loaded.decode(tokens) == text
    message = [{"role": "user", "content": prompt.text}]
    rendered = loaded.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    assert loaded(rendered, add_special_tokens=False)["input_ids"] == task.tokenizer.encode_prompt(prompt.text)
    assert loaded.eos_token_id == task.tokenizer.eos_id


def test_rows_are_what_verl_reads(tmp_path):
    rows = [{"task": "maths", "messages": [{"role": "user", "content": text}], "reference": text} for text in "ab"]
    assert data.write_prompts(tmp_path / "deep" / "train.parquet", rows) == 2
    table = pandas.read_parquet(tmp_path / "deep" / "train.parquet")
    assert table["data_source"].tolist() == ["maths", "maths"]
    assert table["reward_model"][1]["ground_truth"] == "b"
    assert table["prompt"][1][0] == {"role": "user", "content": "b"}
    assert [info["index"] for info in table["extra_info"]] == [0, 1]

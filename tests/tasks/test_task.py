"""Tasks, prompts within the limit, the monitoring set, and the rows an engine gets."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from harness.compose import CONF, Composer, register_methods
from harness.errors import UserError
from harness.tasks import verl_rows
from harness.tasks.datasets import DATASETS
from harness.tasks.library import Library
from harness.tasks.prompts import Example, maths_messages, monitoring_set, prompt_tokens, within_limit
from harness.tasks.task import TASKS, task

TEMPLATE = (
    "{% for m in messages %}<s> {{ m['role'] }} {{ m['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}<s> assistant {% endif %}"
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=words, chat_template=TEMPLATE, unk_token="<unk>")


def examples(count: int) -> list[Example]:
    return [Example(maths_messages("w " * (index + 1)), str(index), index) for index in range(count)]


@pytest.fixture(scope="module")
def composer():
    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield Composer(GlobalHydra.instance().config_loader())


@pytest.mark.parametrize("name", ["tool_calling", "tool_calling_three", "maths"])
def test_a_task_scores_the_channels_of_its_configuration(composer, name):
    wanted = task(name)
    config = composer.compose([f"task={name}", "scale=paper"])
    scores = wanted.score(["a"], ["b"], [1], length_limit=4)
    assert list(scores.channels) == list(wanted.channels) == list(config.task.channels)
    for channel, bounds in config.task.channels.items():
        assert bounds.low <= scores.channels[channel][0] <= bounds.high
    assert config.data.name == wanted.training[0]


def test_every_data_set_of_a_task_exists():
    for wanted in TASKS.values():
        for name in [wanted.training[0], *(wanted.held_out or [])[:1], *wanted.evaluations]:
            assert name == "bfcl_v4" or name in DATASETS
    with pytest.raises(UserError, match="did you mean 'maths'"):
        task("math")


def test_prompt_length_counts_the_chat_template(tokenizer):
    messages = ({"role": "system", "content": "a b"}, {"role": "user", "content": "c"})
    # <s> system a b </s> <s> user c </s> <s> assistant
    assert prompt_tokens(messages, tokenizer) == 11


def test_long_prompts_are_dropped_and_counted(tokenizer):
    all_of_them = examples(10)
    shortest = prompt_tokens(all_of_them[0].messages, tokenizer)
    kept, dropped = within_limit(all_of_them, tokenizer, shortest + 3)
    assert (kept, dropped) == (all_of_them[:4], 6)


def test_the_monitoring_set_is_seeded_and_stays_in_training():
    all_of_them = examples(1000)
    chosen = monitoring_set(all_of_them, 0, 200)
    assert chosen == monitoring_set(list(all_of_them), 0, 200)
    assert chosen != monitoring_set(all_of_them, 1, 200)
    assert len({example.index for example in chosen}) == 200
    assert [example.index for example in chosen] == sorted(example.index for example in chosen)
    assert monitoring_set(all_of_them[:50], 0, 200) == all_of_them[:50]


@pytest.fixture
def filled(tmp_path, monkeypatch):
    """A data folder with a small stand-in for the paper's two training sets."""
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    short = tuple(replace(file, rows=300) for file in DATASETS["deepscaler"].files)
    monkeypatch.setitem(DATASETS, "deepscaler", replace(DATASETS["deepscaler"], files=short))
    folder = tmp_path / "data" / "deepscaler" / "source"
    folder.mkdir(parents=True)
    rows = [{"problem": "w " * (row + 1), "answer": str(row)} for row in range(300)]
    (folder / "deepscaler.json").write_text(json.dumps(rows))
    assert "300 train rows" in Library(tmp_path / "data").fetch("deepscaler")
    return tmp_path / "data"


def test_the_rows_of_a_maths_run(composer, filled, tokenizer, caplog):
    config = composer.compose(["task=maths", "scale=paper"])
    config = replace(config, training=replace(config.training, max_prompt_tokens=100))
    caplog.set_level("INFO", logger="harness.tasks.rows")
    training, held_out = verl_rows(config, tokenizer)
    assert training[0] == {"task": "maths", "messages": list(maths_messages("w")), "reference": "0"}
    dropped = 300 - len(training)
    assert 0 < dropped < 300
    assert f"{dropped} of 300 training prompts" in caplog.text
    assert 0 < len(held_out) < 200
    assert all(row in training for row in held_out)
    config = replace(config, training=replace(config.training, max_prompt_tokens=3))
    with pytest.raises(UserError, match="max_prompt_tokens=3"):
        verl_rows(config, tokenizer)


def test_a_run_reads_the_data_folder_it_is_given(composer, filled, tokenizer, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("DARA_CACHE", str(tmp_path_factory.mktemp("empty")))
    overrides = ["task=maths", "scale=paper", "training.max_prompt_tokens=100"]
    with pytest.raises(UserError, match="is not in"):
        verl_rows(composer.compose(overrides), tokenizer)
    training, _ = verl_rows(composer.compose([*overrides, f"data.root={filled}"]), tokenizer)
    assert training[0]["reference"] == "0"
    missing = composer.compose(["task=tool_calling", "scale=paper", f"data.root={filled}"])
    with pytest.raises(UserError, match=rf"data fetch rlla_4k data\.root={filled}"):
        verl_rows(missing, tokenizer)


def test_a_run_without_its_data_is_told_what_to_do(composer, tmp_path, monkeypatch, tokenizer):
    monkeypatch.setenv("DARA_CACHE", str(tmp_path))
    with pytest.raises(UserError, match=r"run `python -m harness data fetch rlla_4k"):
        verl_rows(composer.compose(["task=tool_calling", "scale=paper"]), tokenizer)


def test_a_run_without_its_model_is_told_what_to_do(composer, filled, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    config = composer.compose(["task=maths", "scale=paper"])
    config = replace(config, model=replace(config.model, path=str(filled / "no-model")))
    with pytest.raises(UserError, match=r"model\.path="):
        verl_rows(config)


def test_loading_names_the_mistake(filled):
    library = Library(filled)
    with pytest.raises(UserError, match=r"no split 'test': .*valid: train"):
        library.load("deepscaler", "test")
    with pytest.raises(UserError, match="unknown data set"):
        library.load("deepscale", "train")
    (filled / "deepscaler" / "train.parquet").write_bytes(b"x")
    with pytest.raises(UserError, match="can't be read"):
        library.load("deepscaler", "train")

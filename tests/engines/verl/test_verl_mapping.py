"""From a run's configuration to verl's: the numbers of Tables 6, 8 and 9, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from verl_tables import ACTOR, DERIVED, REF, ROLLOUT, ROLLOUT_OF_TABLE_9, TABLE_6, TABLE_8, TABLE_9

from harness.compose import CONF, Composer, register_methods
from harness.config import RunConfig
from harness.engines.verl import mapping
from harness.engines.verl.arguments import command_line
from harness.engines.verl.mapping import Inputs
from harness.errors import UserError

INPUTS = Inputs("MODEL", Path("/data/train.parquet"), Path("/data/held out.parquet"), 40_000)


@pytest.fixture(scope="module")
def compose():
    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composer = Composer(GlobalHydra.instance().config_loader())
        yield lambda *overrides: composer.compose(list(overrides))


def values_of(config: RunConfig, prompts: int = 40_000) -> dict:
    inputs = dataclasses.replace(INPUTS, training_prompts=prompts)
    return mapping.overrides(config, inputs, Path("/runs/x"), 1)


def contains(values: dict, expected: dict) -> None:
    assert {key: values.get(key, "absent") for key in expected} == expected


def plain(values: dict) -> dict:
    """Without Hydra's mark of the keys that verl's configuration lacks."""
    return {key.removeprefix("+"): value for key, value in values.items()}


def given(table: dict) -> dict:
    """What of a table the harness says to verl."""
    return {key: value for key, value in table.items() if key not in DERIVED}


def test_tool_calling_has_the_numbers_of_table_6(compose):
    values = values_of(compose("scale=paper", "model=qwen2.5-1.5b", "method=dara_asym", "seed=4"), 3920)
    assert {"+algorithm.reward_keys", "+algorithm.normalization", "+harness.length_limit"} <= values.keys()
    contains(
        plain(values),
        given(TABLE_6)
        | {
            "algorithm.adv_estimator": "dara_asym",
            "algorithm.reward_keys": ["correctness", "format"],
            "data.train_batch_size": 512,
            "data.seed": 4,
            f"{ACTOR}.ppo_mini_batch_size": 128,
            f"{ROLLOUT}.n": 4,
            "trainer.n_gpus_per_node": 4,
        },
    )


@pytest.mark.parametrize("size", TABLE_8)
def test_group_size_has_the_numbers_of_table_8(compose, size):
    prompts, mini, micro = TABLE_8[size]
    values = values_of(compose("scale=paper", "model=qwen2.5-1.5b", f"group_size={size}"), 3920)
    contains(
        values,
        {
            "data.train_batch_size": prompts,
            f"{ACTOR}.ppo_mini_batch_size": mini,
            f"{ROLLOUT}.n": size,
            # verl counts micro-batches in responses of a GPU: the table's prompts, of all four GPUs.
            f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro * size // 4,
        },
    )


@pytest.mark.parametrize("model", ["r1-1.5b", "qwen3-4b", "r1-7b"])
def test_maths_has_the_numbers_of_table_9(compose, model):
    memory, sequences, cap = ROLLOUT_OF_TABLE_9[model]
    config = compose(
        "scale=paper",
        "task=maths",
        f"model={model}",
        "engine.gpus_per_node=8",
        f"training.max_generation_batches={cap}",
    )
    contains(
        plain(values_of(config)),
        given(TABLE_9)
        | {
            f"{ROLLOUT}.gpu_memory_utilization": memory,
            f"{ROLLOUT}.max_num_seqs": sequences,
            "trainer.v1.sampler.sampler_kwargs.max_batches": cap,
            "trainer.n_gpus_per_node": 8,
        },
    )


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("ppo_clip", ("vanilla", "token-mean", 0.2, 0.2, "absent")),
        ("dapo", ("vanilla", "token-mean", 0.2, 0.28, "absent")),
        ("gspo", ("gspo", "seq-mean-token-mean", 3e-4, 4e-4, "absent")),
        ("dr_grpo", ("vanilla", "seq-mean-token-sum-norm", 0.2, 0.2, 1024)),
    ],
)
def test_policy_losses_are_settings_of_verl(compose, loss, expected):
    values = values_of(compose("scale=paper", f"policy_loss={loss}"), 3920)
    keys = ("policy_loss.loss_mode", "loss_agg_mode", "clip_ratio_low", "clip_ratio_high", "loss_scale_factor")
    assert tuple(values.get(f"{ACTOR}.{key}", "absent") for key in keys) == expected


@pytest.mark.parametrize(
    ("responses", "updates", "size", "workers"), [(64, 4, 4, 1), (256, 4, 4, 1), (60, 3, 4, 1), (64, 4, 4, 2)]
)
def test_micro_batches_divide_mini_batches_where_batching_is_not_dynamic(compose, responses, updates, size, workers):
    config = compose(
        "engine=verl",
        "engine.device=cpu",
        f"engine.gpus_per_node={workers}",
        f"training.responses_per_step={responses}",
        f"training.updates_per_step={updates}",
        f"group_size={size}",
    )
    values = values_of(config)
    mini = values[f"{ACTOR}.ppo_mini_batch_size"] * size // workers
    for key in (
        f"{ACTOR}.ppo_micro_batch_size_per_gpu",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu",
        f"{REF}.log_prob_micro_batch_size_per_gpu",
    ):
        assert mini % values[key] == 0, key


def test_methods_that_verl_has_too_are_ours(compose):
    for method, name in (("grpo", "harness_grpo"), ("gdpo", "harness_gdpo"), ("dvao", "dvao")):
        assert values_of(compose("scale=paper", f"method={method}"), 3920)["algorithm.adv_estimator"] == name


@pytest.mark.parametrize(
    ("overrides", "prompts", "message"),
    [
        (("engine.gpus_per_node=3",), 3920, r"512 responses of an update do not divide among 3 workers.*gpus_per_node"),
        (("engine.gpus_per_node=0",), 3920, r"needs at least one GPU.*engine\.device=cpu"),
        (("engine.device=tpu",), 3920, r"engine\.device=tpu is unknown"),
        (("+engine.options.memory_frction=0.5",), 3920, r"memory_frction.*did you mean 'memory_fraction'"),
        (("+engine.options.memory_fraction=1.5",), 3920, r"memory_fraction=1\.5 must lie between 0 and 1"),
        (("+engine.options.tokens_per_gpu=2048",), 3920, r"tokens_per_gpu=2048 .*at least 3072"),
        (("training.filter=smu",), 3920, r"training\.filter=smu is unknown.*did you mean 'sum'"),
        (("training.filter=sum",), 3920, r"needs training\.candidate_prompts"),
        (("policy_loss.reduction=mean",), 3920, r"policy_loss\.reduction=mean is unknown"),
        ((), 100, r"rlla_4k has 100 training prompts, one step needs 512"),
    ],
)
def test_what_cannot_be_is_refused_with_key_and_remedy(compose, overrides, prompts, message):
    config = compose("scale=paper", *overrides)
    with pytest.raises(UserError, match=message):
        values_of(config, prompts)


def test_values_survive_hydras_grammar():
    from hydra.core.override_parser.overrides_parser import OverridesParser

    values = {
        "a": "path with 'quote', {brace} = and \\ back, \\\\'",
        "b": None,
        "c": [1, "x y", 0.5],
        "d": {"k": 1.0, "l": [True, None]},
        "e": 1e-6,
        "f": "3",
        "g": "",
        "h": "/data/train.parquet",
        "i": "TRUE",
        "j": "null",
        "k": ["correctness", "nan"],
    }
    parser = OverridesParser.create()
    for argument, (key, value) in zip(command_line(values), values.items(), strict=True):
        parsed = parser.parse_override(argument)
        assert parsed.key_or_group == key
        assert parsed.value() == value

"""From a run's configuration to verl's: the numbers of Tables 6, 8 and 9, every study, and what is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from verl_cases import needs_verl, run_python

from harness.aggregation.registry import method_parameters
from harness.compose import CONF, Composer, register_methods
from harness.config import RunConfig
from harness.engines.verl import mapping
from harness.engines.verl.arguments import command_line
from harness.engines.verl.mapping import Inputs
from harness.errors import UserError

ACTOR, ROLLOUT, REF = "actor_rollout_ref.actor", "actor_rollout_ref.rollout", "actor_rollout_ref.ref"
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


def test_tool_calling_has_the_numbers_of_table_6(compose):
    values = values_of(compose("scale=paper", "model=qwen2.5-1.5b", "method=dara_asym", "seed=4"), 3920)
    contains(
        values,
        {
            "algorithm.adv_estimator": "dara_asym",
            "+algorithm.reward_keys": ["correctness", "format"],
            "+algorithm.normalization": "token",
            "algorithm.use_kl_in_reward": True,
            "algorithm.kl_ctrl.type": "fixed",
            "algorithm.kl_ctrl.kl_coef": 0.001,
            "data.train_batch_size": 512,
            "data.max_prompt_length": 2048,
            "data.max_response_length": 1024,
            "data.seed": 4,
            f"{ACTOR}.ppo_mini_batch_size": 128,
            f"{ACTOR}.ppo_epochs": 1,
            f"{ACTOR}.clip_ratio_low": 0.2,
            f"{ACTOR}.clip_ratio_high": 0.2,
            f"{ACTOR}.loss_agg_mode": "token-mean",
            f"{ACTOR}.optim.lr": 1e-6,
            f"{ACTOR}.optim.clip_grad": 1.0,
            f"{ACTOR}.entropy_coeff": 0.001,
            f"{ACTOR}.use_kl_loss": False,
            f"{ACTOR}.use_dynamic_bsz": True,
            f"{ACTOR}.ppo_max_token_len_per_gpu": 16384,
            f"{ACTOR}.fsdp_config.param_offload": False,
            f"{REF}.fsdp_config.param_offload": True,
            "actor_rollout_ref.model.enable_gradient_checkpointing": True,
            "actor_rollout_ref.model.use_remove_padding": True,
            f"{ROLLOUT}.name": "vllm",
            f"{ROLLOUT}.n": 4,
            f"{ROLLOUT}.tensor_model_parallel_size": 1,
            f"{ROLLOUT}.gpu_memory_utilization": 0.6,
            f"{ROLLOUT}.temperature": 1.0,
            f"{ROLLOUT}.top_p": 1.0,
            f"{ROLLOUT}.top_k": -1,
            "trainer.n_gpus_per_node": 4,
            "trainer.nnodes": 1,
            "trainer.total_training_steps": 100,
            "trainer.test_freq": 10,
            "trainer.val_before_train": True,
            f"+{'trainer.v1.sampler'}.sampler_kwargs.filter": "none",
        },
    )


@pytest.mark.parametrize(
    ("size", "prompts", "mini", "micro"), [(4, 512, 128, 64), (8, 256, 64, 32), (16, 128, 32, 16), (32, 64, 16, 8)]
)
def test_group_size_has_the_numbers_of_table_8(compose, size, prompts, mini, micro):
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


@pytest.mark.parametrize(
    ("model", "memory", "sequences", "cap"),
    [("r1-1.5b", 0.9, 256, 2), ("qwen3-4b", 0.8, 160, 4), ("r1-7b", 0.8, 160, 4)],
)
def test_maths_has_the_numbers_of_table_9(compose, model, memory, sequences, cap):
    config = compose(
        "scale=paper",
        "task=maths",
        f"model={model}",
        "engine.gpus_per_node=8",
        f"training.max_generation_batches={cap}",
    )
    contains(
        values_of(config),
        {
            "+algorithm.reward_keys": ["correctness", "length"],
            "+algorithm.normalization": "response",
            "algorithm.use_kl_in_reward": False,
            "data.train_batch_size": 512,
            "data.gen_batch_size": 768,
            "data.max_prompt_length": 1024,
            "data.max_response_length": 8000,
            "data.filter_overlong_prompts": True,
            f"{ACTOR}.ppo_mini_batch_size": 64,
            f"{ACTOR}.clip_ratio_low": 0.2,
            f"{ACTOR}.clip_ratio_high": 0.28,
            f"{ACTOR}.loss_agg_mode": "token-mean",
            f"{ACTOR}.use_kl_loss": True,
            f"{ACTOR}.kl_loss_type": "mse",
            f"{ACTOR}.kl_loss_coef": 5e-4,
            f"{ACTOR}.entropy_coeff": 0.0,
            f"{ACTOR}.fsdp_config.model_dtype": "fp32",
            f"+{ACTOR}.fsdp_config.mixed_precision": {
                "param_dtype": "bf16",
                "reduce_dtype": "fp32",
                "buffer_dtype": "fp32",
            },
            f"{ROLLOUT}.n": 16,
            f"{ROLLOUT}.gpu_memory_utilization": memory,
            f"{ROLLOUT}.max_num_seqs": sequences,
            "+trainer.v1.sampler.sampler_kwargs.filter": "sum",
            "+trainer.v1.sampler.sampler_kwargs.needed": 512,
            "+trainer.v1.sampler.sampler_kwargs.candidates": 768,
            "+trainer.v1.sampler.sampler_kwargs.max_batches": cap,
            "trainer.n_gpus_per_node": 8,
            "trainer.save_freq": 10,
            "+harness.length_limit": 4000,
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


PROGRAM = """
import json, sys
from pathlib import Path
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf
from harness.compose import CONF, Composer, register_methods
from harness.engines.verl import mapping
from harness.engines.verl.arguments import command_line, compose
from harness.matrix import expand
register_methods([])
inputs = mapping.Inputs("MODEL", Path("/d/t.parquet"), Path("/d/v.parquet"), 40_000)
studies, paths = json.loads(sys.stdin.read())
configs = []
with initialize_config_dir(str(CONF), version_base="1.3"):
    composer = Composer(GlobalHydra.instance().config_loader())
    for study in studies:
        for gpus in (4, 8):
            for overrides in expand([f"study={study}"], GlobalHydra.instance().config_loader()):
                kept = [text for text in overrides if not text.startswith("engine.gpus_per_node")]
                configs.append((study, gpus, composer.compose([*kept, f"engine.gpus_per_node={gpus}"])))
answers, seen = [], {}
for study, gpus, config in configs:
    values = mapping.overrides(config, inputs, Path("/r/x"), 1)
    plain = {key: value for key, value in values.items() if "seed" not in key}
    key = json.dumps(plain, sort_keys=True)
    if key not in seen:  # runs that differ by their seed alone are one configuration to check
        seen[key] = compose(command_line(values))
    verl = seen[key]
    found = {path: OmegaConf.select(verl, path, default="absent") for path in paths}
    found = {path: OmegaConf.to_container(v) if OmegaConf.is_config(v) else v for path, v in found.items()}
    seeds = {key: value for key, value in values.items() if key.endswith("seed")}
    answers.append([study, gpus, config.model.name, config.group_size, config.method.name, config.seed,
                    str(config.model.path), found, seeds])
print("ANSWERS" + json.dumps(answers))
"""

PRECISION = {"param_dtype": "bf16", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}

BOTH = {
    "algorithm.kl_ctrl.type": "fixed",
    "algorithm.kl_penalty": "kl",
    f"{ACTOR}.strategy": "fsdp",
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.optim.lr": 1e-6,
    f"{ACTOR}.optim.clip_grad": 1.0,
    f"{ACTOR}.grad_clip": 1.0,
    f"{ACTOR}.optim.lr_scheduler_type": "constant",
    f"{ACTOR}.loss_agg_mode": "token-mean",
    f"{ACTOR}.policy_loss.loss_mode": "vanilla",
    f"{ACTOR}.use_dynamic_bsz": True,
    f"{ACTOR}.ppo_max_token_len_per_gpu": 16384,
    f"{ROLLOUT}.log_prob_max_token_len_per_gpu": 16384,
    f"{REF}.log_prob_max_token_len_per_gpu": 16384,
    f"{ACTOR}.fsdp_config.param_offload": False,
    f"{ACTOR}.fsdp_config.optimizer_offload": False,
    f"{ACTOR}.fsdp_config.model_dtype": "fp32",
    f"{ACTOR}.fsdp_config.mixed_precision": PRECISION,
    f"{REF}.fsdp_config.param_offload": True,
    "actor_rollout_ref.model.enable_gradient_checkpointing": True,
    "actor_rollout_ref.model.use_remove_padding": True,
    f"{ROLLOUT}.name": "vllm",
    f"{ROLLOUT}.dtype": "bfloat16",
    f"{ROLLOUT}.tensor_model_parallel_size": 1,
    f"{ROLLOUT}.temperature": 1.0,
    f"{ROLLOUT}.top_p": 1.0,
    f"{ROLLOUT}.top_k": -1,
    "trainer.nnodes": 1,
    "trainer.test_freq": 10,
    "trainer.save_freq": 10,
    "trainer.val_before_train": True,
}
"""Tables 6 and 9 alike, as verl's own keys."""

TABLE_6 = BOTH | {
    "data.max_prompt_length": 2048,
    "data.max_response_length": 1024,
    f"{ACTOR}.clip_ratio": 0.2,
    f"{ACTOR}.clip_ratio_low": 0.2,
    f"{ACTOR}.clip_ratio_high": 0.2,
    f"{ACTOR}.entropy_coeff": 0.001,
    f"{ACTOR}.use_kl_loss": False,
    "algorithm.use_kl_in_reward": True,
    "algorithm.kl_ctrl.kl_coef": 0.001,
    f"{ROLLOUT}.gpu_memory_utilization": 0.6,
    "trainer.total_training_steps": 100,
    "trainer.v1.sampler.sampler_kwargs.filter": "none",
    "algorithm.normalization": "token",
}

TABLE_8 = {4: (512, 128, 64), 8: (256, 64, 32), 16: (128, 32, 16), 32: (64, 16, 8)}
"""Group size -> prompts of a step, of a mini-batch, of a micro-batch."""

TABLE_9 = BOTH | {
    "data.train_batch_size": 512,
    "data.gen_batch_size": 768,
    "data.max_prompt_length": 1024,
    "data.max_response_length": 8000,
    "data.filter_overlong_prompts": True,
    f"{ACTOR}.ppo_mini_batch_size": 64,
    f"{ACTOR}.clip_ratio_low": 0.2,
    f"{ACTOR}.clip_ratio_high": 0.28,
    f"{ACTOR}.entropy_coeff": 0.0,
    f"{ACTOR}.use_kl_loss": True,
    f"{ACTOR}.kl_loss_type": "mse",
    f"{ACTOR}.kl_loss_coef": 5e-4,
    "algorithm.use_kl_in_reward": False,
    "algorithm.normalization": "response",
    "algorithm.reward_keys": ["correctness", "length"],
    "harness.length_limit": 4000,
    f"{ROLLOUT}.n": 16,
    "trainer.v1.sampler.sampler_kwargs.filter": "sum",
    "trainer.v1.sampler.sampler_kwargs.needed": 512,
    "trainer.v1.sampler.sampler_kwargs.candidates": 768,
}

ROLLOUT_OF_TABLE_9 = {
    "r1-1.5b": (0.9, 256, 2),
    "r1-7b": (0.8, 160, 4),
    "qwen3-4b": (0.8, 160, 4),
    "qwen3-4b-thinking": (0.8, 160, 4),
}
"""Memory share, sequences at once, cap on generation batches."""

MODELS = {
    "qwen2.5-1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen2.5-3b": "Qwen/Qwen2.5-3B-Instruct",
    "r1-1.5b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
    "r1-7b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B",
    "qwen3-4b": "Qwen/Qwen3-4B-Instruct-2507",
    "qwen3-4b-thinking": "Qwen/Qwen3-4B-Thinking-2507",
}

STUDIES = {
    "tool_calling_main": 60,
    "group_size": 48,
    "three_rewards": 9,
    "maths_main": 18,
    "maths_static": 4,
    "maths_step_100": 2,
    "maths_thinking": 2,
    "maths_thresholds": 6,
}


def expected_of(study: str, gpus: int, model: str, size: int, method: str) -> dict:
    name = {"grpo": "harness_grpo", "gdpo": "harness_gdpo"}.get(method, method)
    values = {"algorithm.adv_estimator": name, "trainer.n_gpus_per_node": gpus}
    if study.startswith("maths"):
        memory, sequences, cap = ROLLOUT_OF_TABLE_9[model]
        return (
            values
            | TABLE_9
            | {
                f"{ROLLOUT}.gpu_memory_utilization": memory,
                f"{ROLLOUT}.max_num_seqs": sequences,
                "trainer.v1.sampler.sampler_kwargs.max_batches": cap,
                "trainer.total_training_steps": 170 if study == "maths_thresholds" else 100,
                "algorithm.method_parameters.weights": (
                    {"correctness": 1, "length": 5}
                    if method.startswith("static")
                    else method_parameters(method).get("weights", "absent")
                ),
            }
        )
    prompts, mini, micro = TABLE_8[size]
    three = study == "three_rewards"
    return (
        values
        | TABLE_6
        | {
            "data.train_batch_size": prompts,
            f"{ACTOR}.ppo_mini_batch_size": mini,
            f"{ACTOR}.ppo_micro_batch_size_per_gpu": micro * size // gpus,  # the table counts prompts of all GPUs
            f"{ROLLOUT}.n": size,
            "algorithm.reward_keys": ["correctness", "format", *(["length"] if three else [])],
            "harness.length_limit": 16 if three else None,
        }
    )


PATHS = sorted(
    expected_of("maths_static", 8, "r1-1.5b", 16, "static_sym").keys()
    | expected_of("group_size", 4, "qwen2.5-1.5b", 8, "gdpo").keys()
)


@pytest.fixture(scope="module")
def accepted():
    """Every run of every study on 4 and on 8 GPUs, as verl's dataclasses accepted it: one import of verl for all."""
    result = run_python(
        ["-W", "ignore", "-c", PROGRAM],
        timeout=570,
        standard_input=json.dumps([list(STUDIES), PATHS]),
        OMP_NUM_THREADS="1",
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.split("ANSWERS")[1].splitlines()[0])


@pytest.mark.parametrize("study", list(STUDIES))
class TestStudies:
    pytestmark = needs_verl

    def test_verl_accepts_each_run_on_4_and_8_gpus_with_the_numbers_of_the_tables(self, accepted, study):
        runs = [run for run in accepted if run[0] == study]
        assert len(runs) == 2 * STUDIES[study]
        for _, gpus, model, size, method, seed, path, found, seeds in runs:
            expected = expected_of(study, gpus, model, size, method)
            assert {key: found[key] for key in expected} == expected
            assert found["data.train_batch_size"] * size == (8192 if study.startswith("maths") else 2048)
            assert path == MODELS[model]
            assert set(seeds.values()) == {seed}

    def test_the_seeds_are_those_that_were_fixed_before(self, accepted, study):
        seeds = {run[5] for run in accepted if run[0] == study}
        fixed = {"tool_calling_main": {0, 1, 2, 4, 5}, "group_size": {0, 1, 2}, "three_rewards": {0, 1, 2}}
        assert seeds == fixed.get(study, {0})

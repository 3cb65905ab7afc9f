"""Every run of every study, as verl reads its configuration: the numbers of the tables, the seeds, the models."""

from __future__ import annotations

import json

import pytest
from verl_cases import needs_verl, run_python
from verl_tables import ACTOR, ROLLOUT, ROLLOUT_OF_TABLE_9, TABLE_6, TABLE_8, TABLE_9

from harness.aggregation.registry import method_parameters

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

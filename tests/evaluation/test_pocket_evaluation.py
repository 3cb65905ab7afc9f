"""The pocket benchmark on a stored run: the engine's own figures again, from the checkpoint."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "store"))

from store_configs import small_config

from harness.cli import main
from harness.engines.local.huggingface import save_policy
from harness.engines.local.policy import load_policy
from harness.pocket import pocket_task
from harness.store import Run, RunStore

CONFIG = small_config(steps=3)
CONFIG = dataclasses.replace(CONFIG, training=dataclasses.replace(CONFIG.training, evaluation_prompts=24))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run whose last checkpoint is the warm start (a cached one: building it takes a minute)."""
    task = pocket_task(CONFIG)
    from harness.pocket.cache import cache_root

    if not (cache_root() / task.checkpoint_name).is_dir():
        pytest.skip("the pocket warm start is not built; any pocket training builds it")
    made = RunStore(tmp_path / "runs").create(CONFIG)
    save_policy(load_policy(task.checkpoint), task.tokenizer, made.checkpoints / "huggingface")
    return made


def test_a_step_is_evaluated_and_scored_again(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", "benchmark=pocket", f"run={run.path}"]
    assert main(words) == 0
    first = run.evaluations.read("pocket", 3)
    assert first["n"] == 24
    assert set(first["metrics"]) >= {"reward/correctness", "reward/format", "reward/score"}
    assert first["generation"]["engine"] == "policy"
    assert main([*words, "stage=score"]) == 0
    assert run.evaluations.read("pocket", 3) == first
    assert main([*words, "step=0"]) == 0
    assert run.evaluations.read("pocket", 0)["metrics"] == first["metrics"]
    shutil.rmtree(run.path / "evals/pocket/3")
    assert main(words) == 0
    assert run.evaluations.read("pocket", 3) == first


def test_it_says_what_the_trainer_said_of_the_same_steps(run: Run, tmp_path: Path) -> None:
    """Step 0, a kept checkpoint and the exported last step of a trained run: the same prompts, seeds and decoding, so
    the same figures to the last bit."""
    from harness.engines.local.trainer import train_on

    training = dataclasses.replace(CONFIG.training, steps=2, evaluate_every=1, learning_rate=3e-3)
    output = dataclasses.replace(CONFIG.output, checkpoint_every=1, keep_checkpoints=2)
    config = dataclasses.replace(CONFIG, training=training, output=output)
    trained = RunStore(tmp_path / "trained").create(config)
    with trained.lock("test"):
        trained.begin_attempt({})
        train_on(config, trained, pocket_task(config))
        trained.end_attempt("finished", None)
    by_trainer = {step: trained.evaluations.read("pocket", step) for step in (0, 1, 2)}
    assert by_trainer[0]["metrics"] != by_trainer[2]["metrics"]
    assert main(["evaluate", "benchmark=pocket", f"run={trained.path}", "step=[0,1,2]"]) == 0
    for step, expected in by_trainer.items():
        found = trained.evaluations.read("pocket", step)
        assert found["generation"]["engine"] == "policy"
        assert {name: found["metrics"][name] for name in expected["metrics"]} == expected["metrics"]
        assert [found[key] for key in ("n", "temperature", "top_p", "samples")] == [
            expected[key] for key in ("n", "temperature", "top_p", "samples")
        ]


def test_an_interrupted_block_gives_the_same_outputs(run: Run) -> None:
    words = ["evaluate", "benchmark=pocket", f"run={run.path}"]
    assert main(words) == 0
    path = run.path / "evals/pocket/3/generations.jsonl"
    whole = {json.loads(line).get("question"): line for line in path.read_text().splitlines()}
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]) + b'{"torn')
    assert main(words) == 0
    assert {json.loads(line).get("question"): line for line in path.read_text().splitlines()} == whole


def test_a_step_without_checkpoint_says_which_there_are(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "benchmark=pocket", f"run={run.path}", "step=2"]) == 2
    assert "has no checkpoint of step 2; there are 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["benchmark=pockt", "model=x"], "did you mean 'pocket'?"),
        (["benchmark=pocket"], "give exactly one of run=, model= and endpoint=, not none"),
        (["benchmark=pocket", "model=x"], "benchmark=pocket needs run="),
        (["benchmark=maths", "model=x", "step=3"], "step=3 needs run="),
        (["benchmark=maths", "model=x", "limit=0"], "limit=0 must be at least 1"),
        (["benchmark=maths", "model=x", "limits=0"], "did you mean 'limit'?"),
        (["benchmark=maths", "model=x", "samples=many"], "samples=many must be a whole number"),
        (["benchmark=bfcl_v4", "model=x", "categories=simple"], "categories=simple is unknown"),
        (["benchmark=bfcl_v4", "model=x", "sandbox=no"], "sandbox=no is unknown"),
    ],
)
def test_mistakes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *words]) == 2
    assert message in capsys.readouterr().err

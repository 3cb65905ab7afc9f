"""Composition: every choice of conf/ binds, identities are stable, mistakes are named in one line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.compose import (
    CONF,
    Composer,
    check_method_file,
    composing,
    register_methods,
    run_config_from_mapping,
    run_config_to_mapping,
)
from harness.config import config_hash, run_id
from harness.errors import UserError
from harness.matrix import expand, studies, unique_runs

STUDIES = [
    ("pocket", 20),
    ("pocket_smoke", 4),
    ("pocket_extended", 139),
    ("tool_calling_main", 60),
    ("group_size", 48),
    ("three_rewards", 9),
    ("maths_main", 18),
    ("maths_static", 4),
    ("maths_step_100", 2),
    ("maths_thinking", 2),
    ("maths_thresholds", 6),
]


@pytest.fixture(scope="module")
def loader():
    with composing() as found:
        yield found.loader


@pytest.fixture(scope="module")
def composer(loader):
    return Composer(loader)


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


def test_the_default_run_is_a_pocket_run_on_the_local_engine(composer):
    config = composer.compose([])
    assert (config.scale, config.engine.name, config.task.name) == ("pocket", "local", "tool_calling")
    assert list(config.task.channels) == ["correctness", "format"]
    assert config.output.wandb.mode == "disabled"


@pytest.mark.parametrize(("scale", "task"), list(itertools.product(options("scale"), options("task"))))
def test_each_scale_and_task_binds(composer, scale, task):
    config = composer.compose([f"scale={scale}", f"task={task}"])
    assert config.engine.name == {"pocket": "local", "paper": "verl"}[scale]
    assert config.prompts_per_step * config.group_size == config.training.responses_per_step


@pytest.mark.parametrize("group", ["method", "model", "policy_loss", "engine"])
def test_each_choice_of_a_group_binds(composer, group):
    for name in options(group):
        composer.compose([f"{group}={name}"])


def test_paper_numbers_of_tool_calling(composer):
    """arXiv 2610.00574, Tables 6 and 8: 2,048 responses and 4 updates a step at every group size."""
    mini_batch_prompts = {4: 128, 8: 64, 16: 32, 32: 16}
    for group_size, prompts in {4: 512, 8: 256, 16: 128, 32: 64}.items():
        config = composer.compose(["scale=paper", f"group_size={group_size}"])
        assert config.prompts_per_step == prompts
        assert config.prompts_per_step // config.training.updates_per_step == mini_batch_prompts[group_size]


def test_paper_numbers_of_maths(composer):
    """arXiv 2610.00574, Table 9."""
    config = composer.compose(["scale=paper", "task=maths"])
    assert (config.group_size, config.prompts_per_step, config.training.candidate_prompts) == (16, 512, 768)
    assert config.prompts_per_step // config.training.updates_per_step == 64
    assert (config.policy_loss.clip_low, config.policy_loss.clip_high) == (0.2, 0.28)


def test_mapping_round_trip(composer):
    config = composer.compose(["method=static_sym", "task=maths"])
    assert run_config_from_mapping(run_config_to_mapping(config)) == config


def test_identity_ignores_where_and_how_but_not_what(composer):
    base = config_hash(composer.compose([]))
    same = ["output.runs=elsewhere", "output.checkpoint_every=1", "wandb.mode=offline", "study=pocket"]
    same += ["data.root=here"]
    other = ["seed=1", "group_size=8", "training.learning_rate=0.1", "method.w_max=3", "model.warm_start_seed=1"]
    assert {config_hash(composer.compose([text])) for text in same} == {base}
    hashes = {config_hash(composer.compose([text])) for text in other}
    assert base not in hashes
    assert len(hashes) == len(other)


def test_the_data_folder_is_absolute_since_a_job_may_run_elsewhere(composer):
    assert composer.compose([]).data.root is None
    assert composer.compose(["data.root=some/data"]).data.root == str(Path("some/data").absolute())


def test_scalars_set_after_composition_equal_composed_ones(loader):
    """Seed and group size skip Hydra: the result must be the one Hydra gives."""
    fast = Composer(loader).compose(["scale=paper", "seed=3", "group_size=8"])
    slow = Composer(loader)._load(("scale=paper", "seed=3", "group_size=8"))
    assert run_config_from_mapping(slow) == fast


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("method=dara_asim", "did you mean 'dara_asym'"),
        ("task=tool_caling", "did you mean 'tool_calling'"),
        ("training.learning_rat=1", "did you mean training.learning_rate"),
        ("metod=gdpo", "did you mean method"),
        ("method.wmax=3", "of method dara_asym: did you mean 'w_max'? valid: "),
        ("method.weights.format=5", "unknown key method.weights.format of method dara_asym"),
        ("sead=1", "did you mean seed"),
        ("+training.surprise=1", "unknown key training.surprise"),
        ("training.learning_rate=fast", "training.learning_rate=fast must be a number"),
        ("seed=true", "seed=True must be a whole number"),
        ("seed=1.5", "seed=1.5 must be a whole number"),
        ("group_size=3", "group_size=3"),
        ("group_size=0", "group_size=0"),
        ("training.updates_per_step=5", "does not divide"),
        ("study=tool_caling_main", "did you mean 'tool_calling_main'"),
    ],
)
def test_mistakes_are_named_in_one_line(loader, composer, override, message):
    with pytest.raises(UserError) as caught:
        unique_runs(expand([override], loader), composer)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("study", "count"), STUDIES)
def test_studies_have_the_runs_of_the_paper(loader, composer, study, count):
    runs, duplicates = unique_runs(expand([f"study={study}"], loader), composer)
    assert (len(runs), duplicates) == (count, 0)
    assert {run.study for run in runs} == {study}


def test_every_study_is_in_the_list_above():
    assert set(studies()) == {name for name, _ in STUDIES}


def test_group_four_of_the_group_size_study_is_the_main_run(loader, composer):
    main, _ = unique_runs(expand(["study=tool_calling_main"], loader), composer)
    sizes, _ = unique_runs(expand(["study=group_size", "group_size=4"], loader), composer)
    assert {run_id(run) for run in sizes} <= {run_id(run) for run in main}


def test_duplicate_combinations_collapse(loader, composer):
    runs, duplicates = unique_runs(expand(["method=gdpo,gdpo,grpo", "seed=1,1"], loader), composer)
    assert (len(runs), duplicates) == (2, 4)


def test_the_command_line_narrows_a_study(loader, composer):
    runs, _ = unique_runs(expand(["study=pocket", "method=gdpo", "seed=range(0,3)"], loader), composer)
    assert [(run.method.name, run.seed) for run in runs] == [("gdpo", 0), ("gdpo", 1), ("gdpo", 2)]


def test_a_mapping_of_a_method_is_given_whole(loader, composer):
    with pytest.raises(UserError, match=r"give the whole mapping, as in method\.weights="):
        unique_runs(expand(["method=static_sym", "method.weights.format=5"], loader), composer)
    config = composer.compose(["method=static_sym", "method.weights={correctness:1,format:5}"])
    assert config.method.parameters["weights"] == {"correctness": 1, "format": 5}


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("def mine(batch, *, floor=-1.0):\n    return batch.advantages().sum(axis=1)\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nfile: mine.py\nfloor: -0.5\n")
    return tmp_path / "mine.yaml"


def test_the_parameters_of_a_method_of_ones_own(loader, mine: Path):
    """Its own keys are suggested, and files with other values for them are choices of their own."""
    (mine.parent / "other.yaml").write_text("name: mine\nfile: mine.py\n")
    overrides = register_methods([f"method={mine},{mine.parent / 'other.yaml'}"])
    runs, _ = unique_runs(expand(overrides, loader), Composer(loader))
    assert [run.method.parameters for run in runs] == [{"floor": -0.5}, {"floor": -1.0}]
    overrides = register_methods([f"method={mine}", "method.flor=2"])
    with pytest.raises(UserError, match=r"unknown key method\.flor of method mine: did you mean 'floor'\? valid: fl"):
        unique_runs(expand(overrides, loader), Composer(loader))


def test_a_method_of_ones_own_is_known_by_its_content(loader, mine: Path, tmp_path_factory):
    def composed(path: Path):
        return unique_runs(expand(register_methods([f"method={path}"]), loader), Composer(loader))[0][0]

    first = composed(mine)
    assert run_config_from_mapping(run_config_to_mapping(first)) == first
    moved = tmp_path_factory.mktemp("moved")
    for path in (mine, mine.with_suffix(".py")):
        (moved / path.name).write_bytes(path.read_bytes())
    assert run_id(composed(moved / mine.name)) == run_id(first)
    check_method_file(first.method)
    source = mine.with_suffix(".py")
    source.write_text(source.read_text().replace("sum(axis=1)", "min(axis=1)"))
    assert run_id(composed(mine)) != run_id(first)
    with pytest.raises(UserError, match="has changed since this run was made"):
        check_method_file(first.method)


def test_a_method_of_ones_own_is_a_choice(loader, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("name: mine\nfile: absent.py\n")
    with pytest.raises(UserError, match="mine"):
        register_methods([f"method={tmp_path / 'mine.yaml'}"])
    with pytest.raises(UserError, match="cannot read the file"):
        register_methods([f"method={tmp_path / 'nowhere.yaml'}"])

"""A method of the user's own inside verl: registered by file and by package, with the numbers of aggregate()."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from verl_cases import infos_of, needs_verl, run_python

from harness import aggregation
from harness.engines.verl.estimators import (
    RESERVED,
    ChannelBatch,
    channels_of_batch,
    estimator_name,
    is_ours,
    method_of,
    register_method,
    register_own_method,
)
from harness.errors import UserError

pytestmark = needs_verl
CHANNELS = {"correctness": [1.0, 0.0, 1.0, 1.0, 0.0, 1.0], "format": [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]}
LABELS = ["a", "a", "a", "b", "b", "b"]
LENGTHS = [3, 1, 2, 4, 4, 2]


@pytest.fixture
def registry() -> Iterator[dict]:
    """verl's estimators, as they were afterwards."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    before = dict(ADV_ESTIMATOR_REGISTRY)
    yield ADV_ESTIMATOR_REGISTRY
    ADV_ESTIMATOR_REGISTRY.clear()
    ADV_ESTIMATOR_REGISTRY.update(before)


def own(repository: Path, folder: Path, name: str) -> Path:
    """A copy of the example under another name."""
    path = folder / f"{name}.py"
    source = (repository / "examples" / "my_method" / "my_method.py").read_text()
    path.write_text(source.replace("def my_method(", f"def {name}("))
    return path


@pytest.mark.parametrize("name", ["my_method", "rloo"])
@pytest.mark.parametrize("limit", [1.5, 5.0])
def test_a_file_gives_the_numbers_of_aggregate(
    repository: Path, tmp_path: Path, registry: dict, name: str, limit: float
) -> None:
    path = own(repository, tmp_path, name)
    estimator = estimator_name(name)
    assert estimator not in registry
    config = {"method_file": str(path), "adv_estimator": estimator, "normalization": "token"}
    config |= {"reward_keys": list(CHANNELS), "method_parameters": {"limit": limit}}
    register_own_method(SimpleNamespace(adv_estimator=estimator, get=config.get))
    mask = (torch.arange(4)[None, :] < torch.tensor(LENGTHS)[:, None]).long()
    batch = ChannelBatch(infos_of(CHANNELS), np.zeros(6, dtype=bool), [(f"u_{row}", 0) for row in range(6)])
    with channels_of_batch(batch):
        found, _ = registry[estimator](torch.zeros(6, 4), mask, config=config, index=np.array(LABELS, dtype=object))
    expected = aggregation.aggregate(
        aggregation.load_method(path, name),
        CHANNELS,
        LABELS,
        channels=list(CHANNELS),
        lengths=LENGTHS,
        normalization="token",
        limit=limit,
    )
    assert expected.weights["format"] > expected.weights["correctness"] == 1.0
    assert batch.result is not None
    assert (batch.method, batch.result.weights) == (name, expected.weights)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(found[row, :length], expected.advantages[row], rtol=1e-6)


def test_the_names_that_verl_takes(registry: dict) -> None:
    assert {name for name, function in registry.items() if not is_ours(function)} == set(RESERVED)
    assert all(method_of(estimator_name(name)) == name for name in (*RESERVED, "my_method", "dara_asym"))


def test_verls_own_is_never_taken_for_the_users(repository: Path, tmp_path: Path, registry: dict) -> None:
    algorithm = SimpleNamespace(adv_estimator="rloo", get={"method_file": "rloo.py"}.get)
    with pytest.raises(UserError, match=r"rloo is verl's own.*adv_estimator=harness_rloo"):
        register_own_method(algorithm)
    registry["surprise"] = lambda: None
    with pytest.raises(RuntimeError, match="method surprise: this verl has an advantage estimator of that name"):
        register_method("surprise")


def test_one_of_an_installed_package_is_registered_by_its_name(
    repository: Path, tmp_path: Path, installed: Callable[[Path, str, str], Path]
) -> None:
    """By what ``pip install`` leaves behind, in a process that only imports verl."""
    site = tmp_path / "site"
    (site / "my_package").mkdir(parents=True)
    shutil.copy(repository / "examples" / "my_method" / "my_method.py", site / "my_package" / "__init__.py")
    installed(site, "my_package", "my_method")
    program = (
        "from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY as found\n"
        "print('REGISTERED', found['my_method'].__name__)"
    )
    done = run_python(["-W", "ignore", "-c", program], timeout=300, PYTHONPATH=str(site), OMP_NUM_THREADS="1")
    assert "REGISTERED my_method_advantage" in done.stdout, done.stderr[-2000:]

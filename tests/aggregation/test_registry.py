"""The list of methods, their documentation, and methods from outside the project."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from harness.aggregation import (
    aggregate,
    get_method,
    load_method,
    method_names,
    method_parameters,
    prepare,
    step_parameters,
)
from harness.aggregation import cards as cards_module
from harness.aggregation.definition import SECTIONS
from harness.aggregation.registry import BUILT_IN

REWARDS = [[1, 1], [0, 1], [1, 0], [0, 0]]
GROUPS = ["a", "a", "b", "b"]
CHANNELS = ["correctness", "format"]
ARXIV = {
    "grpo": "2402.03300",
    "gdpo": "2601.05242",
    "dara_sym": "2610.00574",
    "dara_asym": "2610.00574",
    "static_sym": "2610.00574",
    "static_asym": "2610.00574",
    "dvao": "2605.25604",
    "saw": "2606.07705",
    "saw_grpo": "2606.07705",
    "sa_mrpo": "2608.16072",
    "gd2po_hard": "2606.16771",
    "gd2po_snr": "2606.16771",
    "rvpo": "2605.05750",
    "mo_grpo": "2509.22047",
    "dr_grpo": "2503.20783",
}


def test_the_methods_and_their_sources():
    assert {name: method.arxiv for name, method in BUILT_IN.items()} == ARXIV
    assert method_names()[: len(ARXIV)] == list(BUILT_IN)
    without = {name for name, method in BUILT_IN.items() if not method.final_normalization}
    assert without == {"grpo", "dr_grpo", "dvao", "saw_grpo", "mo_grpo"}


@pytest.mark.parametrize("name", list(BUILT_IN))
def test_every_method_is_documented(name):
    method = BUILT_IN[name]
    assert method.name == name == method.function.__name__
    assert list(method.sections) == ["Summary", *SECTIONS]
    assert all(method.sections.values())
    assert method.arxiv in method.sections["Source"]
    for parameter in method.parameters:
        assert parameter in method.sections["Parameters"]


def test_parameters_are_the_defaults_of_the_signature():
    assert method_parameters("dara_asym") == {"w_max": 5.0, "tau": 1e-8, "eps": 1e-6, "ddof": 1}
    assert method_parameters("rvpo") == {"kappa": 1.0, "progress": None, "eps": 1e-6, "ddof": 1}
    assert method_parameters("dvao") == {"weights": None, "eps": 1e-8, "ddof": 0}
    assert method_parameters("dr_grpo") == {}
    method_parameters("static_sym")["weights"]["length"] = 7.0
    assert method_parameters("static_sym")["weights"] == {"correctness": 1.0, "length": 5.0}


def test_step_parameters_fill_in_what_the_run_knows():
    bounds = {"correctness": (-3, 3), "format": (0, 1)}
    known = {"bounds": bounds, "progress": 0.5}
    assert step_parameters(get_method("gdpo"), {"eps": 0.0}, **known) == {"eps": 0.0}
    assert step_parameters(get_method("saw"), method_parameters("saw"), **known)["bounds"] == bounds
    assert step_parameters(get_method("saw"), {"bounds": {}}, **known)["bounds"] == {}
    given = step_parameters(get_method("rvpo"), {"kappa": [0.5, 2.0]}, **known)
    assert given == {"kappa": [0.5, 2.0], "progress": 0.5}


def test_the_page_of_cards_is_up_to_date(repository):
    made = subprocess.run(
        [sys.executable, "-m", "harness.aggregation.cards"], capture_output=True, text=True, check=True, cwd=repository
    )
    assert (repository / "docs" / "methods.md").read_text(encoding="utf-8") == made.stdout
    assert cards_module.page() == made.stdout


@pytest.fixture
def copy_of_example(repository, tmp_path):
    return shutil.copytree(repository / "examples" / "my_method", tmp_path / "mine")


def test_a_method_in_a_file(copy_of_example):
    mine = load_method(copy_of_example / "my_method.py", "my_method")
    assert (mine.name, mine.parameters, mine.final_normalization) == ("my_method", {"limit": 5.0}, True)
    assert load_method(str(copy_of_example / "my_method.py")).function is mine.function
    # both channels active once in each group: equal energy, hence gdpo
    batch = [[1, 1], [0, 0], [1, 1], [0, 0]]
    same = aggregate("gdpo", batch, GROUPS, channels=CHANNELS)
    np.testing.assert_allclose(aggregate(mine, batch, GROUPS, channels=CHANNELS).advantages, same.advantages)
    # energies 2 and 1: sqrt(2), and capped
    batch = [[1, 1], [0, 0], [1, 0], [0, 0]]
    assert aggregate(mine, batch, GROUPS, channels=CHANNELS).weights["format"] == pytest.approx(2**0.5)
    assert aggregate(mine, batch, GROUPS, channels=CHANNELS, limit=1.25).weights["format"] == 1.25
    with pytest.raises(ValueError, match="method 'my_method' has no parameter 'limt'; did you mean 'limit'"):
        aggregate(mine, batch, GROUPS, channels=CHANNELS, limt=1)


def test_the_example_in_the_guide(repository, tmp_path):
    """The Python blocks of docs/extending.md: the first is a method, the last one tries it."""
    blocks = (repository / "docs" / "extending.md").read_text(encoding="utf-8").split("```python\n")[1:]
    blocks = [block.split("```")[0] for block in blocks]
    (tmp_path / "my_method.py").write_text(blocks[0])
    tried = blocks[-1].replace("path/to/my_method/my_method.py", "my_method.py")
    found = subprocess.run([sys.executable, "-c", tried], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "'format': 1.0" in found.stdout
    for name in ("means", "counts", "constant", "deviations", "labels", "sizes", "lengths"):
        assert hasattr(prepare(REWARDS, GROUPS, channels=CHANNELS), name)


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        ("def other(batch): return 0", "my_method", r"holds no method function 'my_method'; .*valid: other"),
        ("my_method = 3", "my_method", "holds no method function 'my_method'; valid: none"),
        ("def my_method(): return 0", "my_method", "takes no batch"),
        ("def my_method(batch, power): return 0", "my_method", r"parameter 'power' .* must come after \*"),
        ("def my_method(batch, *, power): return 0", "my_method", "have a default"),
        ("def my_method(batch, **kw): return 0", "my_method", "'kw' of method 'my_method'"),
        ("def my_method(batch:", "my_method", "does not load: SyntaxError"),
        ("import no_such_module_anywhere", "my_method", "does not load: ModuleNotFoundError"),
        ("def gdpo(batch): return 0", "gdpo", "has the name of a built-in method"),
    ],
)
def test_a_file_that_is_no_method(tmp_path, source, name, message):
    path = tmp_path / "my_method.py"
    path.write_text(source)
    with pytest.raises(ValueError, match=message):
        load_method(path, name)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*absent\.py"):
        load_method(tmp_path / "absent.py", "my_method")


def test_a_name_instead_of_a_file():
    assert load_method("dara_sym") is get_method("dara_sym")
    with pytest.raises(ValueError, match="unknown method 'dara'"):
        load_method("dara")


def test_an_installed_method(tmp_path, installed):
    """A package with an entry point, as pip lays it out."""
    (tmp_path / "someones_methods.py").write_text(
        "def flat(batch, *, height=2.0):\n    return height * batch.advantages().sum(axis=1)\n"
    )
    folder = installed(tmp_path, "someones_methods", "flat")
    code = (
        "from harness.aggregation import aggregate, method_names, method_parameters\n"
        f"found = aggregate('flat', {REWARDS}, {GROUPS}, channels={CHANNELS})\n"
        f"same = aggregate('gdpo', {REWARDS}, {GROUPS}, channels={CHANNELS})\n"
        "assert abs(found.advantages - same.advantages).max() < 1e-5\n"
        "print(method_names()[-1], method_parameters('flat'))\n"
    )
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{code}"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert found.stdout.strip() == "flat {'height': 2.0}"
    (folder / "entry_points.txt").write_text("[dara_harness.methods]\ngdpo = someones_methods:flat\n")
    clash = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "installed method 'gdpo' (someones_methods:flat) has a name that is taken" in clash.stderr

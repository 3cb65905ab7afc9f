"""docs/extending.md word for word, from a folder outside the repository: a method in a file, and in a package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "my-package"
version = "0.1"
"""


@pytest.fixture(scope="module")
def guide(repository: Path) -> str:
    return (repository / "docs" / "extending.md").read_text(encoding="utf-8")


def block(guide: str, language: str, number: int = 0) -> str:
    return guide.split(f"```{language}\n")[number + 1].split("```")[0]


def run(repository: Path, folder: Path, *arguments: str, path: Path | None = None) -> str:
    """``python harness/run.py`` of the guide, from another folder."""
    environment = dict(os.environ) if path is None else {**os.environ, "PYTHONPATH": str(path)}
    command = [sys.executable, str(repository / "harness" / "run.py"), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def in_a_file(guide: str, tmp_path: Path) -> Path:
    folder = tmp_path / "path" / "to" / "my_method"
    folder.mkdir(parents=True)
    (folder / "my_method.py").write_text(block(guide, "python"))
    (folder / "my_method.yaml").write_text(block(guide, "yaml"))
    return tmp_path


@pytest.fixture
def installed(guide: str, tmp_path: Path) -> Path:
    """A folder of installed packages that holds the one of the guide."""
    package = tmp_path / "project" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "methods.py").write_text(block(guide, "python"))
    (package.parent / "pyproject.toml").write_text(PROJECT + block(guide, "toml"))
    site = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(site), str(package.parent)], check=True, timeout=120)
    return site


def test_it_is_a_choice_of_the_matrix(repository: Path, guide: str, in_a_file: Path) -> None:
    arguments = "-m method=gdpo,path/to/my_method/my_method.yaml"
    assert f"python harness/run.py {arguments}" in guide
    planned = run(repository, in_a_file, *arguments.split(), "dry_run=true")
    assert "tool_calling-pocket-my_method-g4-s0-" in planned
    assert "2 runs in runs: 2 new" in planned


def test_an_installed_one_is_known_by_its_name(repository: Path, installed: Path, tmp_path: Path) -> None:
    planned = run(repository, tmp_path, "method=my_method", "method.floor=-0.25", "dry_run=true", path=installed)
    assert "tool_calling-pocket-my_method-g4-s0-" in planned
    scored = (
        "from harness.aggregation import aggregate\n"
        "from harness.store import provenance\n"
        "print(aggregate('my_method', [[1], [0]], [0, 0], channels=['reward']).method)\n"
        "print(provenance.packages()['my-package'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", scored],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "my_method\n0.1\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["file", "package"])
def test_it_trains_in_the_pocket_matrix_and_is_in_every_table(
    repository: Path, in_a_file: Path, request: pytest.FixtureRequest, form: str
) -> None:
    site = None if form == "file" else request.getfixturevalue("installed")
    chosen = "path/to/my_method/my_method.yaml" if form == "file" else "my_method"
    short = ["training.steps=2", "training.evaluate_every=2"]
    said = run(repository, in_a_file, f"method=gdpo,{chosen}", *short, path=site)
    assert re.search(r"^ *my_method +0 +2/2 ", said, re.MULTILINE), said
    for arguments in (["collect", "--quiet"], ["analyse"]):
        done = subprocess.run(
            [sys.executable, "-m", "harness", *arguments], cwd=in_a_file, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    compared = subprocess.run(
        [sys.executable, "-m", "harness", "compare", "method=my_method", "against=gdpo", "metric=reward/format"],
        cwd=in_a_file,
        capture_output=True,
        text=True,
    )
    assert "reward/format: my_method against gdpo" in compared.stdout, compared.stderr
    for name in ("learning_speed.csv", "density.csv"):
        assert "my_method" in (in_a_file / "results" / "analysis" / name).read_text()

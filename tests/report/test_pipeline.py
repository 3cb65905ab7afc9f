"""dvc.yaml: every table and figure is a stage, and every stage names the code that its output depends on."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from figures import __main__ as figures
from harness.analysis.schema import COLUMNS
from harness.report.preset_command import PRESETS, parameters
from paper_tables import __main__ as tables

ROOT = Path(__file__).resolve().parents[2]
STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PARAMETERS = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
INTERFACES = ("figures/", "paper_tables/", "harness/analysis/", "harness/report/")
"""Code whose change can change a table or figure of the same results; what lies below it made the results."""
SETTINGS = (
    "figures/",
    "paper_tables/",
    "harness/aggregation/",
    "harness/engines/reward_kl",
    "harness/evaluation/",
    "harness/tasks/",
)
MATRICES = {
    "tables": ("tables", "results", "paper_tables", INTERFACES),
    "settings": ("tables", "code", "paper_tables", SETTINGS),
    "figures": ("figures", "results", "figures", INTERFACES),
    "theory": ("figures", "code", "figures", (*INTERFACES[:2], "harness/aggregation/")),
}


def test_params_names_the_modules_on_disk():
    assert parameters(PARAMETERS["preset"]) == PARAMETERS
    assert {**parameters("smoke"), "preset": "default", "study": "pocket"} == parameters("default")
    assert sorted(PARAMETERS["tables"]["results"] + PARAMETERS["tables"]["code"]) == tables.names()
    assert sorted(PARAMETERS["figures"]["results"] + PARAMETERS["figures"]["code"]) == figures.names()


def test_the_repository_has_the_default_preset():
    assert PARAMETERS["preset"] == "default"
    assert PARAMETERS["study"] == PRESETS["default"]


@pytest.mark.parametrize("stage", MATRICES)
def test_a_stage_depends_on_all_code_behind_its_output(stage):
    group, origin, package, prefixes = MATRICES[stage]
    for name in PARAMETERS[group][origin]:
        declared = [item.replace("${item.name}", name) for item in STAGES[stage]["deps"]]
        needed = {path for path in closure(f"{package}/{name}.py", prefixes) if not path.endswith("__init__.py")}
        assert {path for path in needed if not covered(path, declared)} == set()
        missing = [path for path in declared if not path.startswith("results/") and not (ROOT / path).exists()]
        assert missing == []


@pytest.mark.parametrize("stage", MATRICES)
def test_a_stage_depends_on_the_code_of_no_other_table_or_figure(stage):
    group, origin, _, _ = MATRICES[stage]
    for name in PARAMETERS[group][origin]:
        declared = [item.replace("${item.name}", name) for item in STAGES[stage]["deps"]]
        others = {item for item in (*tables.names(), *figures.names()) if item != name}
        assert others & {Path(item).stem for item in declared} == set()


def test_stages_that_read_results_depend_on_every_collected_table():
    tables = {f"results/{name}.parquet" for name in COLUMNS}
    assert set(STAGES["collect"]["outs"]) == tables
    for stage in ("analysis", "tables", "figures", "report"):
        assert tables <= set(STAGES[stage]["deps"])


def test_every_written_file_is_an_output():
    for stage in ("tables", "settings"):
        assert {Path(item).suffix for item in STAGES[stage]["outs"]} == {".csv", ".json", ".md", ".tex"}
    for stage in ("figures", "theory"):
        assert {Path(item).suffix for item in STAGES[stage]["outs"]} == {".csv", ".json", ".pdf", ".png", ".svg"}


def covered(path: str, declared: list[str]) -> bool:
    return any(path == item or path.startswith(f"{item}/") for item in declared)


def closure(start: str, prefixes: tuple[str, ...]) -> set[str]:
    """Files of the project below ``prefixes`` that ``start`` imports, through each other and inside functions too."""
    todo, seen = [start], set()
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += [item for item in imported(ROOT / path) if item.startswith(prefixes)]
    return seen


@functools.cache
def imported(path: Path) -> tuple[str, ...]:
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [item.name for item in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{item.name}" for item in node.names)]
        for name in names:
            base = ROOT.joinpath(*name.split("."))
            for candidate in (base.with_suffix(".py"), base / "__init__.py"):
                if candidate.exists():
                    yield str(candidate.relative_to(ROOT))

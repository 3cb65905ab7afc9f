"""From a command line to the runs it asks for: studies, sweeps, and each distinct combination once.

A study file (``conf/study/NAME.yaml``) lists matrices; a matrix maps a key or group to one value or a list of values
and stands for the product of its lists. The command line narrows a study (``study=tool_calling_main method=dara_sym``)
and adds to it (``training.steps=20``): a key given there replaces the study's list.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from harness.compose import CONF, Composer
from harness.config import RunConfig, run_id
from harness.errors import UserError, nearest


def expand(arguments: Sequence[str], loader: Any) -> list[list[str]]:
    """Overrides of each run, in the order in which the keys were given, the last key varying fastest.

    ``loader`` is Hydra's config loader (its grammar gives lists, ranges and globs their meaning). Raises
    :class:`UserError` for a study that does not exist.
    """
    sweeps = _sweeps(arguments, loader)
    studies = sweeps.pop("study", ["none"])
    rows: list[list[str]] = []
    for study in studies:
        for matrix in _matrices(study):
            merged = {**{key: _values(value) for key, value in matrix.items()}, **sweeps}
            if study != "none":
                merged["study"] = [study]
            lists = [[f"{key}={value}" for value in values] for key, values in merged.items()]
            rows.extend(list(row) for row in itertools.product(*lists))
    return rows


def unique_runs(rows: Iterable[Sequence[str]], composer: Composer) -> tuple[list[RunConfig], int]:
    """Compose each row; returns the distinct runs in order, and how many combinations fell together (their evaluations
    are joined)."""
    runs: dict[str, RunConfig] = {}
    count = 0
    for row in rows:
        count += 1
        config = composer.compose(row)
        name = run_id(config)
        runs[name] = _both_evaluations(runs[name], config) if name in runs else config
    return list(runs.values()), count - len(runs)


def _both_evaluations(first: RunConfig, second: RunConfig) -> RunConfig:
    """One run that two studies ask for: the first one's, evaluated at the steps of both if on the same benchmarks."""
    one, other = first.evaluation, second.evaluation
    if not one.at:
        return dataclasses.replace(first, evaluation=other)
    if (one.benchmarks, one.options) != (other.benchmarks, other.options):
        return first
    return dataclasses.replace(first, evaluation=dataclasses.replace(one, at=sorted({*one.at, *other.at})))


def study_runs(study: str, composer: Composer) -> list[RunConfig]:
    """The runs of a study. Raises :class:`UserError` for one that does not exist."""
    return unique_runs(expand([f"study={study}"], composer.loader), composer)[0]


def studies() -> list[str]:
    return sorted(path.stem for path in (CONF / "study").glob("*.yaml") if path.stem != "none")


def _sweeps(arguments: Sequence[str], loader: Any) -> dict[str, list[str]]:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        overrides = OverridesParser.create(config_loader=loader).parse_overrides(list(arguments))
    except HydraException as error:
        raise UserError(" ".join(str(error).split())) from error
    sweeps: dict[str, list[str]] = {}
    for override in overrides:
        key = override.get_key_element()
        if override.is_sweep_override():
            if not override.is_discrete_sweep():
                raise UserError(f"{override.input_line}: only lists, choice(), range() and glob() are swept")
            sweeps[key] = list(override.sweep_string_iterator())
        else:
            sweeps[key] = [override.get_value_element_as_str()]
    return sweeps


def _matrices(study: str) -> list[Mapping[str, Any]]:
    path = CONF / "study" / f"{study}.yaml"
    if not path.exists():
        raise UserError(f"study={study} does not exist: {nearest(study, studies())}")
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return list(content.get("matrices", [{}]))


def _values(value: Any) -> list[str]:
    return [
        item if isinstance(item, str) else json.dumps(item) for item in (value if isinstance(value, list) else [value])
    ]

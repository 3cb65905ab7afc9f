"""From overrides to runs: Hydra composes ``conf/``, the result is bound to :class:`~harness.config.RunConfig`."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness import aggregation
from harness.binding import bind
from harness.config import MethodConfig, RunConfig
from harness.errors import UserError, nearest
from harness.evaluation.asked import check_evaluation, complete_evaluation

CONF = Path(__file__).resolve().parents[1] / "conf"

LAUNCH_KEYS = ("dry_run", "retry", "wandb", "evaluate_at", "matrices", "hydra")
"""Keys of the root of ``conf/`` that say what to do with the matrix; they are no part of a run."""

_SCALARS = {"seed": int, "group_size": int}
"""Set on an already composed configuration: nothing in ``conf/`` may refer to them by interpolation."""


_METHOD_KEYS = ("name", "file", "file_sha256")


def run_config_from_mapping(mapping: Mapping[str, Any]) -> RunConfig:
    """Bind a plain mapping (a composed configuration or a stored ``config.yaml``) and check it as a whole.

    The method's own keys stand beside ``name``, ``file`` and, where there is one, ``file_sha256``. Raises
    :class:`UserError` naming key, value and remedy.
    """
    content = {key: value for key, value in mapping.items() if key not in LAUNCH_KEYS}
    method = content.get("method")
    if not isinstance(method, Mapping) or "name" not in method:
        raise UserError("method must name an aggregation method; give method=NAME")
    content["method"] = {
        "name": method["name"],
        "file": method.get("file"),
        "file_sha256": method.get("file_sha256"),
        "parameters": {key: value for key, value in method.items() if key not in _METHOD_KEYS},
    }
    content["evaluation"] = complete_evaluation(content.get("evaluation"))
    config = bind(RunConfig, content, "")
    _check(config)
    return config


def run_config_to_mapping(config: RunConfig) -> dict[str, Any]:
    """The inverse of :func:`run_config_from_mapping`: plain dicts, lists and scalars, ready for YAML or JSON."""
    mapping = dataclasses.asdict(config)
    method = mapping["method"]
    digest = {} if method["file_sha256"] is None else {"file_sha256": method["file_sha256"]}
    mapping["method"] = {"name": method["name"], "file": method["file"], **digest, **method["parameters"]}
    return mapping


def _check(config: RunConfig) -> None:
    check_evaluation(config)
    training = config.training
    if config.group_size < 1:
        raise UserError(f"group_size={config.group_size} must be at least 1")
    if training.responses_per_step % config.group_size:
        raise UserError(
            f"training.responses_per_step={training.responses_per_step} is no multiple of "
            f"group_size={config.group_size}; choose one that divides it"
        )
    if config.prompts_per_step % training.updates_per_step:
        raise UserError(
            f"training.updates_per_step={training.updates_per_step} does not divide the "
            f"{config.prompts_per_step} prompts of a step; choose one that does"
        )
    known = _method_parameters(config.method)
    for key in config.method.parameters:
        if key not in known:
            raise UserError(f"unknown key method.{key} of method {config.method.name}: {nearest(key, known)}")


def _method_parameters(method: MethodConfig) -> Mapping[str, Any]:
    try:
        if method.file is not None:
            return aggregation.load_method(method.file, method.name).parameters
        return aggregation.method_parameters(method.name)
    except (ValueError, OSError, ImportError, SyntaxError) as error:
        raise UserError(f"method {method.name}: {error}") from error


_EXTERNAL = "external_"
"""What the name of a Hydra choice begins with that stands for a YAML file of the user's."""


def register_methods(overrides: Sequence[str]) -> list[str]:
    """Make every method a Hydra choice and return the overrides with YAML paths replaced by the choice they became.

    ``method=folder/my_method.yaml`` reads a file with ``name``, ``file`` (a Python file, relative to the YAML) and
    parameters; installed methods (entry points) become choices by their name.
    """
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for name in aggregation.method_names():
        parameters = dict(aggregation.method_parameters(name))
        store.store(group="method/signature", name=name, node=parameters, package="method")
        if not (CONF / "method" / f"{name}.yaml").exists():
            store.store(group="method", name=name, node={"name": name, "file": None, **parameters})
    return [_with_external_methods(_left_to_the_composer(text), store) for text in overrides]


_MAPPING = re.compile(r"\+{0,2}method\.(\w+)=(\{.*\})")


def _left_to_the_composer(override: str) -> str:
    """``method.weights={a:1}`` as a sweep over one value: only those does Hydra leave to :class:`Composer`."""
    found = _MAPPING.fullmatch(override)
    return f"method.{found[1]}=choice({found[2]})" if found else override


def _with_external_methods(override: str, store: Any) -> str:
    key, separator, value = override.partition("=")
    if key != "method" or not separator or ".yaml" not in value:
        return override
    choices = []
    for item in value.split(","):
        choices.append(_store_external(Path(item), store) if item.endswith(".yaml") else item)
    return "method=" + ",".join(choices)


def _store_external(path: Path, store: Any) -> str:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"method={path}: cannot read the file ({error.strerror}); give a path that exists") from error
    except yaml.YAMLError as error:
        raise UserError(f"method={path}: no valid YAML ({' '.join(str(error).split())})") from error
    if not isinstance(content, Mapping) or not {"name", "file"} <= set(content):
        raise UserError(f"method={path}: the file needs the keys name and file (see docs/extending.md)")
    source = str((path.parent / str(content["file"])).resolve())
    method = MethodConfig(name=str(content["name"]), file=source, parameters={})
    parameters = dict(_method_parameters(method))
    digest = _digest(Path(source))
    for key, value in content.items():
        if key in ("name", "file"):
            continue
        if key not in parameters:
            raise UserError(f"method={path}: unknown key {key}: {nearest(str(key), parameters)}")
        parameters[key] = value
    # Two files may set other parameters for functions of the same name.
    mark = hashlib.sha256(repr((source, sorted(parameters.items()))).encode()).hexdigest()[:8]
    choice = f"{_EXTERNAL}{method.name}_{mark}"
    node = {"name": method.name, "file": source, "file_sha256": digest, **parameters}
    store.store(group="method", name=choice, node=node)
    return choice


def check_method_file(method: MethodConfig) -> None:
    """UserError when the file of a user's method is no longer what it was when the run was composed."""
    if method.file is None or method.file_sha256 in (None, _digest(Path(method.file))):
        return
    raise UserError(
        f"{method.file} has changed since this run was made: give the command again, which makes a run of the new "
        "content, or restore the file"
    )


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); restore the method's file") from error


class Composer:
    """Composes runs from overrides; each distinct choice of groups is composed once (Hydra needs 0.2 s for it)."""

    def __init__(self, loader: Any) -> None:
        """``loader``: Hydra's config loader (``hydra_context.config_loader``)."""
        self.loader = loader
        self._composed: dict[tuple[str, ...], dict[str, Any]] = {}

    def compose(self, overrides: Sequence[str]) -> RunConfig:
        """One run from plain overrides (no sweeps). Raises :class:`UserError`."""
        choices, scalars = _split(overrides)
        if choices not in self._composed:
            self._composed[choices] = self._load(choices)
        return run_config_from_mapping({**self._composed[choices], **scalars})

    def _load(self, overrides: tuple[str, ...]) -> dict[str, Any]:
        from hydra.types import RunMode
        from omegaconf import OmegaConf

        plain, mappings = _without_mappings(overrides)
        with one_line_errors(overrides):
            config = self.loader.load_configuration(config_name="config", overrides=plain, run_mode=RunMode.RUN)
            OmegaConf.set_struct(config, False)
            config.pop("hydra", None)
            content = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        assert isinstance(content, dict)
        content["method"].update(mappings)
        if content["data"].get("root"):  # a job may run in another folder
            content["data"]["root"] = str(Path(content["data"]["root"]).expanduser().absolute())
        return {str(key): value for key, value in content.items()}


@contextlib.contextmanager
def composing() -> Iterator[Composer]:
    """A composer outside ``harness/run.py``: for tables, plans and tests. Not to be nested."""
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra

    register_methods([])
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield Composer(GlobalHydra.instance().config_loader())


def _without_mappings(overrides: Iterable[str]) -> tuple[list[str], dict[str, Any]]:
    """``method.weights={a:1,b:2}`` replaces the whole mapping; Hydra would merge it with the keys of the default."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    plain: list[str] = []
    mappings: dict[str, Any] = {}
    for text in overrides:
        found = _MAPPING.fullmatch(text)
        if found:
            with one_line_errors([text]):
                mappings[found[1]] = OverridesParser.create().parse_override(text).value()
        else:
            plain.append(text)
    return plain, mappings


def _split(overrides: Sequence[str]) -> tuple[tuple[str, ...], dict[str, int]]:
    choices: list[str] = []
    scalars: dict[str, int] = {}
    for text in overrides:
        key, _, value = text.partition("=")
        if key in _SCALARS and re.fullmatch(r"[+-]?\d+", value):
            scalars[key] = int(value)
        else:
            choices.append(text)
    return tuple(choices), scalars


@contextlib.contextmanager
def one_line_errors(overrides: Iterable[str]) -> Iterator[None]:
    """Turn what Hydra and OmegaConf raise into a :class:`UserError` of one line with the nearest valid name."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (HydraException, OmegaConfBaseException) as error:
        raise UserError(_explain(error, list(overrides))) from error


def _explain(error: Exception, overrides: list[str]) -> str:
    text = str(error)
    missing = re.search(r"Could not find '([^']+)'", text)
    if missing:
        group, _, name = missing.group(1).rpartition("/")
        return f"{group}={name} does not exist: {nearest(name, _choices(group))}"
    key = re.search(r"Could not (?:override|append to config|find) '?([\w./@-]+)'?", text)
    if key:
        name = key.group(1).rstrip(".")
        chosen = _chosen_methods(overrides)
        if name.startswith("method.") and len(chosen) == 1:
            label, parameters = next(iter(chosen.items()))
            first, _, below = name.removeprefix("method.").partition(".")
            if below and first in parameters:
                return f"unknown key {name}: give the whole mapping, as in method.{first}={{correctness:1,{below}:5}}"
            return f"unknown key {name} of method {label}: {nearest(name.removeprefix('method.'), parameters)}"
        close = difflib.get_close_matches(name, _keys(chosen), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(close)}?" if close else "`python harness/run.py --cfg job` lists all keys"
        return f"unknown key {name}: {hint}"
    cause = f" ({error.__cause__})" if error.__cause__ is not None else ""
    return " ".join(f"{text}{cause}".split())


def _choices(group: str) -> list[str]:
    folder = CONF / group
    names = {path.stem for path in folder.glob("*.yaml")}
    if group == "method":
        names |= set(aggregation.method_names())
    return sorted(names)


def _chosen_methods(overrides: Iterable[str]) -> dict[str, list[str]]:
    """The methods that ``method=`` names, each with its parameters; the default one where nothing is named."""
    from hydra.core.config_store import ConfigStore

    given = [text.removeprefix("method=") for text in overrides if text.startswith("method=")]
    if not given:
        defaults = yaml.safe_load((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
        given = [entry["method"] for entry in defaults if "method" in entry]
    found: dict[str, list[str]] = {}
    for choice in given[-1].split(","):
        if choice.startswith(_EXTERNAL):
            node = ConfigStore.instance().load(f"method/{choice}.yaml").node
            found[str(node["name"])] = [str(key) for key in node if key not in _METHOD_KEYS]
        elif choice in aggregation.method_names():
            found[choice] = list(aggregation.method_parameters(choice))
    return found


def _keys(methods: Mapping[str, Iterable[str]]) -> list[str]:
    """Every key that an override may name: the groups, the keys found in the files of ``conf/``, those of methods."""
    keys: set[str] = set()
    for path in CONF.rglob("*.yaml"):
        group = path.parent.relative_to(CONF).as_posix()
        keys.add("" if group == "." else group)
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
        package = "" if group == "." or "@package _global_" in text else group.replace("/", ".") + "."
        keys |= set(_flatten(content, package))
    keys |= {f"method.{key}" for parameters in methods.values() for key in parameters}
    return sorted(key for key in keys if key and not key.startswith(("defaults", "hydra.", "matrices")))


def _flatten(content: Any, prefix: str) -> Iterator[str]:
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield f"{prefix}{key}"
            yield from _flatten(value, f"{prefix}{key}.")

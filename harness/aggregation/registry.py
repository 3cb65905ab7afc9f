"""The methods by name: those of the project, those of installed packages, and one in a file of the user's."""

from __future__ import annotations

import copy
import functools
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from harness.aggregation.definition import Method, describe
from harness.aggregation.inputs import suggestion
from harness.aggregation.methods.dara_asym import dara_asym
from harness.aggregation.methods.dara_sym import dara_sym
from harness.aggregation.methods.dr_grpo import dr_grpo
from harness.aggregation.methods.dvao import dvao
from harness.aggregation.methods.gd2po_hard import gd2po_hard
from harness.aggregation.methods.gd2po_snr import gd2po_snr
from harness.aggregation.methods.gdpo import gdpo
from harness.aggregation.methods.grpo import grpo
from harness.aggregation.methods.mo_grpo import mo_grpo
from harness.aggregation.methods.rvpo import rvpo
from harness.aggregation.methods.sa_mrpo import sa_mrpo
from harness.aggregation.methods.saw import saw
from harness.aggregation.methods.saw_grpo import saw_grpo
from harness.aggregation.methods.static_asym import static_asym
from harness.aggregation.methods.static_sym import static_sym

ENTRY_POINTS = "dara_harness.methods"

BUILT_IN: dict[str, Method] = {
    method.name: method
    for method in (
        grpo,
        gdpo,
        dara_sym,
        dara_asym,
        static_sym,
        static_asym,
        dvao,
        saw,
        saw_grpo,
        sa_mrpo,
        gd2po_hard,
        gd2po_snr,
        rvpo,
        mo_grpo,
        dr_grpo,
    )
}


def method_names() -> list[str]:
    """Names of all methods: the project's in their order of presentation, then those of installed packages."""
    return [*BUILT_IN, *_installed()]


def method_parameters(name: str | Method) -> dict[str, Any]:
    """Keyword parameters of a method and their defaults, from its signature (a copy, plain types)."""
    return copy.deepcopy(get_method(name).parameters)


def get_method(name: str | Method) -> Method:
    """The method of that name; a :class:`Method` is returned as it is. Unknown: ValueError with the nearest name."""
    if isinstance(name, Method):
        return name
    if name in BUILT_IN:
        return BUILT_IN[name]
    installed = _installed()
    if name not in installed:
        raise ValueError(f"unknown method {name!r}; {suggestion(name, [*BUILT_IN, *installed])}")
    return _as_method(installed[name].load(), str(name), f"entry point {name!r}")


def load_method(source: str | Path, name: str | None = None) -> Method:
    """A method from a Python file of the user's, or by name (of the project or of an installed package).

    A ``source`` that ends in ``.py`` is a file, run as ordinary Python; ``name`` is the function in it, by default the
    file's own name. The function is ``def NAME(batch, *, parameter=default)`` and returns scores [N]; without the
    ``@method`` decorator its scores are normalised over the batch. ValueError: no such file or function."""
    if not str(source).endswith(".py"):
        return get_method(str(source))
    path = Path(source)
    wanted = name or path.stem
    if not path.is_file():
        raise ValueError(f"method {wanted!r}: there is no file {path}")
    if wanted in BUILT_IN:
        raise ValueError(f"method {wanted!r} in {path} has the name of a built-in method; rename it")
    return _as_method(getattr(_module(path.resolve()), wanted, None), wanted, str(path), _module(path.resolve()))


def _as_method(found: object, name: str, where: str, module: Any = None) -> Method:
    if isinstance(found, Method):
        return found if found.name == name else Method(**{**vars(found), "name": name})
    if inspect.isfunction(found):
        return describe(found, name=name)
    own = [key for key, value in vars(module or object).items() if _defined_in(value, module)]
    raise ValueError(f"{where} holds no method function {name!r}; {suggestion(name, own)}")


def _defined_in(value: object, module: Any) -> bool:
    function: Callable[..., Any] | object = value.function if isinstance(value, Method) else value
    return inspect.isfunction(function) and function.__module__ == getattr(module, "__name__", None)


@functools.cache
def _module(path: Path) -> Any:
    """The module of a file, run once per process."""
    label = f"dara_harness_method_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(label, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be loaded as a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[label] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[label]
        raise ValueError(f"{path} does not load: {type(error).__name__}: {error}") from error
    return module


@functools.cache
def _installed() -> dict[str, Any]:
    """Entry points of the group ``dara_harness.methods`` by name; a name that is taken is an error."""
    found: dict[str, Any] = {}
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in BUILT_IN or (point.name in found and found[point.name].value != point.value):
            raise ValueError(f"installed method {point.name!r} ({point.value}) has a name that is taken; rename it")
        found[point.name] = point
    return found

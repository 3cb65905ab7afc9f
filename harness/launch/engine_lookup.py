"""An engine by its name: a package of ``harness/engines``, or any importable module when the name has a dot."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from harness import engines
from harness.errors import UserError, nearest


def find_engine(name: str) -> ModuleType:
    """A module with ``train(config, run, should_stop)`` and, if it wants, ``prepare(configs)``.

    ``prepare`` is called once, in a process of its own, before the first of several runs starts: it downloads or builds
    what they share, shows its progress on standard error, and raises :class:`UserError` when the runs cannot work.
    """
    installed = [item.name for item in pkgutil.iter_modules(engines.__path__)]
    if "." not in name and name not in installed:
        raise UserError(f"engine.name={name} is unknown: {nearest(name, installed)}")
    module_name = name if "." in name else f"harness.engines.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise UserError(f"engine.name={name}: {error}; install it or put its folder on PYTHONPATH") from error
    if not callable(getattr(module, "train", None)):
        raise UserError(f"engine.name={name}: {module_name} has no function train(config, run, should_stop)")
    return module

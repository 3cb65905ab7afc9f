"""What verl loads: importing this module adds the estimators and the trainer to verl's registries.

verl imports it by the entry point group ``verl.plugins`` in each of its processes (``pip install`` is all that is
needed), or by ``VERL_USE_EXTERNAL_MODULES=harness.engines.verl.plugin``. Most of these processes never train; each
registration therefore waits for the module of verl that has the registry and happens right after it was imported.

verl hides errors of an entry point; what goes wrong is logged as an error and raised again by
:func:`ensure_registered`, and the estimators are registered nevertheless, to say what is wrong when one is used.

The trainer takes the place of ``sync``, verl's default trainer mode; with an estimator that is not ours it is verl's.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import verl  # noqa: F401  (first, so that verl's own modules are complete)

from harness import aggregation
from harness.engines.verl import compatibility
from harness.engines.verl.estimators import estimator_name, register_method

ALGORITHMS = "verl.trainer.ppo.core_algos"
TRAINER = "verl.trainer.ppo.v1.trainer_sync"

_log = logging.getLogger(__name__)
_problem: str | None = None


def ensure_registered(method: str | None = None) -> None:
    """Raise RuntimeError with the reason when the registration did not happen, or ``method`` has no estimator."""
    importlib.import_module(TRAINER)
    if _problem is not None:
        raise RuntimeError(_problem)
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    if method is not None and estimator_name(method) not in ADV_ESTIMATOR_REGISTRY:
        raise RuntimeError(f"verl has no estimator for method {method!r}; registered: {sorted(ADV_ESTIMATOR_REGISTRY)}")


def _register_estimators() -> None:
    for name in aggregation.method_names():
        register_method(name)


def _register_trainer() -> None:
    global _problem
    try:
        warning = compatibility.check()
        from harness.engines.verl import trainer
    except compatibility.IncompatibleVerlError as error:
        _problem = str(error)
    except ImportError as error:
        _problem = (
            f"the multi-reward trainer cannot be imported ({error}); pip install 'dara-harness[verl]' brings what it "
            "needs"
        )
    if _problem is not None:
        _log.error(_problem)
        _refuse_estimators(_problem)
        return
    if warning is not None:
        _log.warning(warning)
    trainer.register()


def _refuse_estimators(problem: str) -> None:
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    for name in aggregation.method_names():
        ADV_ESTIMATOR_REGISTRY[estimator_name(name)] = _refuse(problem)


def _refuse(problem: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError(problem)

    return refuse


class _After(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Calls ``then`` once, right after module ``name`` was imported by whoever wants it."""

    def __init__(self, name: str, then: Callable[[], None]) -> None:
        self.name, self.then = name, then
        self.loader: Any = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        self.then()


def _after(name: str, then: Callable[[], None]) -> None:
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _After(name, then))


_after(ALGORITHMS, _register_estimators)
_after(TRAINER, _register_trainer)

"""What verl loads: importing this module adds the estimators and the trainer to verl's registries.

verl imports it by the entry point group ``verl.plugins`` in each of its processes (``pip install`` is all that is
needed), or by ``VERL_USE_EXTERNAL_MODULES=harness.engines.verl.plugin``. verl hides errors of an entry point; what
goes wrong here is therefore logged as an error and raised again by :func:`ensure_registered`, and the estimators are
registered nevertheless, to say what is wrong when one is used.

The trainer takes the place of ``sync``, verl's default trainer mode; with an estimator that is not ours it is verl's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import verl  # noqa: F401  (first, so that verl's own modules are complete)

from harness import aggregation
from harness.engines.verl import compatibility
from harness.engines.verl.estimators import estimator_name, make_estimator

_log = logging.getLogger(__name__)


def ensure_registered(method: str | None = None) -> None:
    """Raise RuntimeError with the reason when the registration did not happen, or ``method`` has no estimator."""
    if PROBLEM is not None:
        raise RuntimeError(PROBLEM)
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY

    if method is not None and estimator_name(method) not in ADV_ESTIMATOR_REGISTRY:
        raise RuntimeError(f"verl has no estimator for method {method!r}; registered: {sorted(ADV_ESTIMATOR_REGISTRY)}")


def register_method(name: str) -> None:
    """Add the estimator of one more method (one that lives in a file of the user's)."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    if estimator_name(name) not in ADV_ESTIMATOR_REGISTRY:
        register_adv_est(estimator_name(name))(make_estimator(name))


def _register() -> str | None:
    """None, or what is wrong."""
    try:
        warning = compatibility.check()
        from harness.engines.verl import trainer
    except compatibility.IncompatibleVerlError as error:
        return _register_refusals(str(error))
    except ImportError as error:
        return _register_refusals(
            f"the multi-reward trainer cannot be imported ({error}); pip install 'dara-harness[verl]' brings what it "
            "needs"
        )
    if warning is not None:
        _log.warning(warning)
    for name in aggregation.method_names():
        register_method(name)
    trainer.register()
    return None


def _register_refusals(problem: str) -> str:
    _log.error(problem)
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est

    for name in aggregation.method_names():
        if estimator_name(name) not in ADV_ESTIMATOR_REGISTRY:
            register_adv_est(estimator_name(name))(_refuse(problem))
    return problem


def _refuse(problem: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError(problem)

    return refuse


PROBLEM = _register()

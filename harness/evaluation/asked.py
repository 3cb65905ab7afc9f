"""The group ``evaluation`` of a run: which benchmarks at which steps. Importing this costs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.config import RunConfig
from harness.errors import UserError, nearest
from harness.evaluation.benchmarks import BENCHMARKS, POCKET
from harness.evaluation.options import check_further

_NOTHING: Mapping[str, Any] = {"benchmarks": [], "at": [], "options": {}}
_SO_ON = ("..", "...")


def complete_evaluation(evaluation: Any) -> Any:
    """The group with every step of ``at: [0, 10, .., 100]``, ascending, each once.

    None (a configuration stored before there were evaluations) asks for nothing; what is malformed is left for the
    binding to name. Raises :class:`UserError` for ``..`` that stands for nothing.
    """
    if evaluation is None:
        return dict(_NOTHING)
    if not isinstance(evaluation, Mapping) or not isinstance(evaluation.get("at"), list):
        return evaluation
    steps: list[Any] = []
    given = evaluation["at"]
    for index, item in enumerate(given):
        if item in _SO_ON:
            steps.extend(_between(given, index))
        else:
            steps.append(item)
    if all(isinstance(step, int) for step in steps):
        steps = sorted(set(steps))
    return {**evaluation, "at": steps}


def _between(given: list[Any], index: int) -> range:
    around = given[max(0, index - 2) : index] + given[index + 1 : index + 2]
    if len(around) == 3 and all(isinstance(step, int) and not isinstance(step, bool) for step in around):
        first, second, last = around
        if first < second < last and (last - second) % (second - first) == 0:
            return range(second, last, second - first)
    text = ",".join(map(str, given))
    raise UserError(
        f"evaluate_at=[{text}]: {given[index]} stands for equal distances between two steps before it and one after "
        "it, as in [0,10,..,100]"
    )


def check_evaluation(config: RunConfig) -> None:
    """Raises :class:`UserError` when the evaluations that a run asks for cannot be made."""
    evaluation, steps = config.evaluation, config.training.steps
    if not evaluation.at:
        return
    beyond = [step for step in evaluation.at if not 0 <= step <= steps]
    if beyond:
        raise UserError(
            f"evaluate_at: step {beyond[0]} is not among the steps 0 to {steps} of training.steps={steps}; "
            "leave it out, or give evaluate_at=[] to evaluate nothing"
        )
    if not evaluation.benchmarks:
        raise UserError("evaluate_at needs evaluation.benchmarks, e.g. evaluation.benchmarks=[bfcl_v4]")
    for benchmark in evaluation.benchmarks:
        if benchmark not in BENCHMARKS:
            raise UserError(f"evaluation.benchmarks: {benchmark} is unknown: {nearest(benchmark, BENCHMARKS)}")
        if benchmark == POCKET and config.data.source != "generated":
            raise UserError(
                f"evaluation.benchmarks: {POCKET} belongs to generated tasks, data.source={config.data.source}; "
                "choose maths or bfcl_v4"
            )
    check_further(evaluation.options, "evaluation.options")

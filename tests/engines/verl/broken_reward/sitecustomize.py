"""First on PYTHONPATH: a reward function that goes wrong, in whichever process scores. BROKEN_REWARD says how."""

import os

from harness.rewards import batch

_right = batch.score_batch


def _infinite(*arguments, **options):
    scores = _right(*arguments, **options)
    for values in scores.channels.values():
        values[:] = float("inf")
        break
    return scores


def _raises(task, responses, *arguments, **options):
    if responses:
        raise RuntimeError("the grader's licence has expired")
    return _right(task, responses, *arguments, **options)


batch.score_batch = {"infinite": _infinite, "raises": _raises}[os.environ["BROKEN_REWARD"]]

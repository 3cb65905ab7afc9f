import math
from collections.abc import Mapping, Sequence

import numpy as np

from harness.aggregation.batch import Batch
from harness.aggregation.definition import Scores, method
from harness.aggregation.density import EPS, Floats
from harness.aggregation.parameters import number


@method(arxiv="2605.05750")
def rvpo(
    batch: Batch,
    *,
    kappa: float | Sequence[float] | Mapping[str, float] = 1.0,
    progress: float | None = None,
    eps: float = EPS,
    ddof: int = 1,
) -> Scores:
    """A soft minimum over the channel advantages: the worst channel of a response decides.

    Formula: S = -(1/kappa) log( (1/K) sum_k exp(-kappa A_k) ); N(S)
    Assumes: a response is as good as its weakest reward.
    Degenerate: kappa = 0 is the mean over channels, kappa = inf the minimum. An inactive or missing channel takes part
        with A_k = 0.
    Parameters: kappa is a number of at least 0, or a linear schedule [start, end] (or start: and end: by name) over
        training; progress in [0, 1] is how far training has come, needed for a schedule; eps and ddof of A.
    Source: arXiv 2605.05750
    Certainty: three second-hand notes; its eps, ddof, kind of final normalisation and the shape of its schedule
        (0.5 to 2) are not known.
    """
    advantages = batch.advantages(eps, ddof)
    return Scores(soft_minimum(advantages, current(kappa, progress)), advantages)


def current(kappa: float | Sequence[float] | Mapping[str, float], progress: float | None) -> float:
    """The kappa of this moment: a number as it is, a schedule interpolated at ``progress``."""
    if isinstance(kappa, Mapping):
        if set(kappa) != {"start", "end"}:
            raise ValueError(f"kappa is {dict(kappa)!r}; a schedule by name has exactly the keys start and end")
        kappa = [kappa["start"], kappa["end"]]
    if isinstance(kappa, str) or not isinstance(kappa, Sequence):
        return number(kappa, "kappa", 0.0, infinite=True)
    if len(kappa) != 2:
        raise ValueError(f"kappa is {kappa!r}; a schedule is a pair [start, end]")
    start, end = (number(value, "kappa", 0.0) for value in kappa)
    if progress is None:
        raise ValueError(f"kappa is the schedule {kappa!r}, which needs progress, the share of training done in [0, 1]")
    share = number(progress, "progress", 0.0)
    if share > 1:
        raise ValueError(f"progress is {progress!r}, but the share of training done lies in [0, 1]")
    return start + (end - start) * share


def soft_minimum(values: Floats, kappa: float) -> Floats:
    """-(1/kappa) log mean exp(-kappa x) over channels: [N, K] -> [N], without overflow and exact for tiny kappa."""
    if math.isinf(kappa):
        return np.asarray(values.min(axis=1))
    mean = values.mean(axis=1)
    if kappa == 0:
        return mean
    if kappa * float(np.abs(values).max()) < 1.0:
        shifted = np.expm1(-kappa * (values - mean[:, None])).mean(axis=1)
        return mean - np.log1p(shifted) / kappa
    least = values.min(axis=1)
    return least - np.log(np.exp(-kappa * (values - least[:, None])).mean(axis=1)) / kappa

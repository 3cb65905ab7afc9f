"""From the rewards of a rollout batch to one advantage per response: DARA and its peers.

NumPy float64 only, nothing of the project: the same code serves training, diagnosis and tests. The face is
:func:`aggregate`; a mistake of the caller's is a ValueError that names what is wrong.
"""

from harness.aggregation.batch import Batch, prepare
from harness.aggregation.conflict import conflicts
from harness.aggregation.core import Aggregation, aggregate, aggregate_batch
from harness.aggregation.definition import Method, Scores, method
from harness.aggregation.density import EPS, TAU, density_weights, expected_density
from harness.aggregation.filtering import group_filter
from harness.aggregation.parameters import step_parameters
from harness.aggregation.registry import get_method, load_method, method_names, method_parameters

__all__ = [
    "EPS",
    "TAU",
    "Aggregation",
    "Batch",
    "Method",
    "Scores",
    "aggregate",
    "aggregate_batch",
    "conflicts",
    "density_weights",
    "expected_density",
    "get_method",
    "group_filter",
    "load_method",
    "method",
    "method_names",
    "method_parameters",
    "prepare",
    "step_parameters",
]

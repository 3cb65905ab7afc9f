"""From collected results to numbers with their uncertainty, the runs behind them and a verdict.

``load_results(folder)`` reads what ``python -m harness collect`` wrote; everything else takes that ``Results``. All
functions are pure; resampling takes a key that names the cell and nothing else decides its random numbers. Choices and
what they cost: docs/statistics.md.
"""

from harness.analysis.claims import Claims, load_claims
from harness.analysis.compare import Comparison, compare, compare_all
from harness.analysis.crossings import crossings, held_out_crossings, learning_speed
from harness.analysis.density import density_summary, energy_ratio, metrics_table, weighted_energy_ratio
from harness.analysis.intervals import (
    Interval,
    curve_band,
    mean_over_questions,
    mean_over_seeds,
    mean_over_seeds_and_questions,
    paired_over_questions,
)
from harness.analysis.permutation import holm
from harness.analysis.quantities import printed, values
from harness.analysis.questions import NoQuestions, difference_over_questions
from harness.analysis.results import Results, load_results
from harness.analysis.selection import Selection, load_selection, started, summary
from harness.analysis.survival import Survival, logrank, survival
from harness.analysis.thresholds import (
    Crossing,
    first_crossing,
    in_responses,
    median_curve,
    stable_crossing,
    sustained_crossing,
)
from harness.analysis.value_verdicts import value_verdicts
from harness.analysis.verdicts import Verdict, verdict_table, verdicts

__all__ = [
    "Claims",
    "Comparison",
    "Crossing",
    "Interval",
    "NoQuestions",
    "Results",
    "Selection",
    "Survival",
    "Verdict",
    "compare",
    "compare_all",
    "crossings",
    "curve_band",
    "density_summary",
    "difference_over_questions",
    "energy_ratio",
    "first_crossing",
    "held_out_crossings",
    "holm",
    "in_responses",
    "learning_speed",
    "load_claims",
    "load_results",
    "load_selection",
    "logrank",
    "mean_over_questions",
    "mean_over_seeds",
    "mean_over_seeds_and_questions",
    "median_curve",
    "metrics_table",
    "paired_over_questions",
    "printed",
    "stable_crossing",
    "started",
    "summary",
    "survival",
    "sustained_crossing",
    "value_verdicts",
    "values",
    "verdict_table",
    "verdicts",
    "weighted_energy_ratio",
]

"""One aggregation method per module; ``harness/aggregation/registry.py`` lists them.

A docstring has the sections Formula, Assumes, Degenerate, Parameters, Source and Certainty, from which the method cards
and the paper's comparison table are made. Notation: r reward, A channel advantage, S score, k channel, N(S) the final
normalisation over the batch; mean and std are those of the response's group unless said otherwise.
"""

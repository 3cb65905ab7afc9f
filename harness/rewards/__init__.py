"""Rewards: model text or token counts in, one number per channel out.

Everything here is pure, runs in time linear in the text or under a stated cap, and never raises on model text.
Engines and evaluations call :func:`harness.rewards.batch.score_batch` and nothing else.
"""

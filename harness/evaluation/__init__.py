"""Evaluation of checkpoints and endpoints: generate (stored, resumable) and score (repeatable without a GPU)."""

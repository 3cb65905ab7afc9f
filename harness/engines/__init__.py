"""Engines: each trains one run. ``harness.engines.<name>.train(config, run)`` resumes by itself, raises on failure."""

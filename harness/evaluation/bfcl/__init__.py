"""BFCL-v4 (bfcl-eval 2026.3.23): its data, multi-turn driver and checkers behind the ToolRL prompt and parser."""

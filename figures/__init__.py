"""The figures of arXiv 2610.00574 and a few more, one module per figure: ``build(results) -> Picture``."""

"""The tables of arXiv 2610.00574, one module per table: ``build(results) -> Table``.

A table is data; Markdown, LaTeX, CSV and JSON are renderings of it (:mod:`paper_tables.render`).
"""

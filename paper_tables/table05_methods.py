"""Table 5: what each method computes, from the methods' own docstrings and parameters."""

from __future__ import annotations

from harness.aggregation import get_method, method_names
from paper_tables.table import Column, Row, Table, texts


def build() -> Table:
    """Needs no results: the table is made from ``harness/aggregation``."""
    rows = []
    for name in method_names():
        method = get_method(name)
        sections = method.sections
        parameters = ", ".join(f"{key}={value}" for key, value in method.parameters.items() if value is not None)
        rows.append(
            Row(
                name,
                texts(
                    formula=" ".join(sections.get("Formula", "").replace("`", "").split()),
                    final="yes" if method.final_normalization else "no",
                    parameters=parameters,
                    source=f"arXiv {method.arxiv}" if method.arxiv else "not published",
                ),
            )
        )
    return Table(
        name="table05_methods",
        title="Aggregation methods",
        caption="From the rewards of a batch to one score per response; N is the final batch normalisation.",
        columns=(
            Column("formula", "aggregation"),
            Column("final", "N"),
            Column("parameters", "parameters"),
            Column("source", "source"),
        ),
        rows=tuple(rows),
        paper_item="Table 5",
        notes=("Generated from the methods' docstrings; docs/methods.md has assumptions and degenerate cases.",),
    )

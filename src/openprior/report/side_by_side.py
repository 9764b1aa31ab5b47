"""Releases side by side as one page: a table, and heat maps of errors by column and of distances between releases."""

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from openprior.report.heat import heat_picture
from openprior.report.template import page_of

__all__ = ["MARK", "Distances", "comparison_pictures", "render_comparison"]

Distances = Mapping[tuple[str, str], float]
Errors = Mapping[str, Mapping[str, float]]

MARK = '<meta name="generator" content="openprior compare">'
"""In every such page, so that a later one may take its place."""


def comparison_pictures(names: Sequence[str], per_column: Errors, distances: Distances) -> list[Markup]:
    """Errors by column, if there are any, and how far the releases are from one another."""
    # They are ours and escaped where they are drawn.
    pictures = []
    if per_column:
        columns = list(dict.fromkeys(a for errors in per_column.values() for a in errors))
        values = np.array([[per_column[name].get(a, np.nan) for name in names] for a in columns])
        title = "Mean L1 error of the tables with a column in them. NOT PRIVATE"
        pictures.append(Markup(heat_picture(columns, list(names), values, title)))
    apart = np.array([[0.0 if a == b else distances[a, b] for b in names] for a in names])
    title = "Mean L1 distance between releases"
    pictures.append(Markup(heat_picture(list(names), list(names), apart, title)))
    return pictures


def render_comparison(
    names: Sequence[str],
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    per_column: Errors,
    distances: Distances,
    notes: Sequence[str],
    notice: str,
) -> str:
    """The page; with a notice it is marked NOT PRIVATE."""
    return page_of(
        "comparison.html.j2",
        names=names,
        headings=headings,
        rows=rows,
        notes=notes,
        notice=notice,
        mark=Markup(MARK),
        pictures=comparison_pictures(names, per_column, distances),
    )

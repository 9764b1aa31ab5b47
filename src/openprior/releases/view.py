"""What another table says beside a release: its one-way shares, and how far the released rows are from it.

A release has the view of its *public* table, which is no secret and is published with it. A view of the private table
is made by `evaluate` only and is NOT PRIVATE.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.engine import engine_of
from openprior.counting.local import count_table
from openprior.errors import ReleaseError, SourceError
from openprior.privacy.strict import Record
from openprior.questions.workload import Marginal, canonical
from openprior.schema.base import Schema
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from openprior.tables.table import Table

__all__ = ["RowCounts", "View", "compared_marginals", "counted", "view_of"]

_LARGEST = 1_000_000
"""Cells of a pair beyond which it is left out."""


@dataclass(frozen=True, eq=False)
class View:
    """A table beside a release."""

    rows: int
    shares: Mapping[str, NDArray[np.float64]] = field(repr=False)
    """The share of every value of every column."""
    distances: Mapping[Marginal, float] = field(repr=False)
    """‖p − q‖₁ of its shares p and the released rows' q (0 to 2), for every column and every pair of columns."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "rows": self.rows,
            "shares": {name: [round(float(s), 9) for s in shares] for name, shares in self.shares.items()},
            "distances": [[list(m), round(d, 9)] for m, d in self.distances.items()],
        }

    @staticmethod
    def from_dict(values: object, schema: Schema) -> "View":
        """From JSON; strict, and it must fit the schema."""
        record = Record(values, "its public.json")
        rows, columns, pairs = (
            record.whole("rows", least=1),
            record.record("shares"),
            record.items("distances"),
        )
        record.end()
        if columns.names != schema.names:
            raise ReleaseError("its public.json has other columns than its schema")
        shares = {name: np.array(columns.numbers(name)) for name in columns.names}
        for name, share in shares.items():
            # Shares are rounded to nine digits.
            if len(share) != schema[name].size or abs(share.sum() - 1) > 1e-9 * len(share):
                raise ReleaseError(f"its public.json has no shares of column '{name}'")
        if not all(type(pair) is list and len(pair) == 2 for pair in pairs):
            raise ReleaseError("its public.json has distances that are none")
        distances: dict[Marginal, float] = {}
        for marginal, distance in pairs:
            pair = Record({"columns": marginal, "distance": distance}, "its public.json")
            names = pair.texts("columns")
            distances[canonical(names, schema.domain)] = pair.number("distance", zero=True)
        if [list(m) for m in distances] != [m for m, _ in pairs] or any(d > 2 for d in distances.values()):
            raise ReleaseError("its public.json has distances that cannot be")
        return View(rows, shares, distances)


@dataclass(frozen=True, eq=False)
class RowCounts:
    """What was counted of released rows."""

    rows: int
    counts: Mapping[Marginal, NDArray[np.int64]] = field(repr=False)

    @staticmethod
    def of(released: Any, schema: Schema, marginals: list[Marginal]) -> "RowCounts":
        """Of released rows, as codes or as they are."""
        counts, rows = counted(released, schema.plain, marginals, private=False)
        return RowCounts(rows, counts)


def compared_marginals(schema: Schema) -> list[Marginal]:
    """What a view compares: every column, and every pair that is not too large."""
    names = schema.domain.attributes
    pairs = [p for p in itertools.combinations(names, 2) if schema.domain.size(p) <= _LARGEST]
    return [*((a,) for a in names), *pairs]


def view_of(data: Any, released: Any, schema: Schema, *, private: bool = False) -> View:
    """The view of a table beside the released rows: as codes, as counts of all that is compared, or as they are."""
    names, compared = schema.domain.attributes, compared_marginals(schema)
    theirs, rows = counted(data, schema, compared, private=private)
    ours, n = counted(released, schema.plain, compared, private=False)
    distances = {m: float(np.abs(theirs[m] / rows - ours[m] / n).sum()) for m in compared}
    return View(rows, {a: theirs[(a,)] / rows for a in names}, distances)


def counted(
    data: Any, schema: Schema, marginals: list[Marginal] | tuple[Marginal, ...], *, private: bool
) -> tuple[dict[Marginal, NDArray[np.int64]], int]:
    """Exact counts and the number of rows, in one pass over the table wherever it is."""
    if isinstance(data, RowCounts):
        return dict(data.counts), data.rows
    if isinstance(data, Table):
        return count_table(data, marginals), data.n
    encoder = Encoder(schema, open_source(data, schema), private=private)
    cells = Cells(schema.domain, marginals)
    counts, rows = engine_of(encoder.source).count(encoder, cells)
    if not rows:
        raise SourceError(f"{encoder.what} is empty; give a table with at least one row")
    return cells.split(counts), rows

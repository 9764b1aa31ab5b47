"""How strongly columns go together, in the private and in the released rows. Everything here is NOT PRIVATE.

Cramér's V, from 0 (independent) to 1 (one column tells the other), is the bias-corrected one: with χ² of the r × c
table of codes that occur among n rows, φ² = max(0, χ²/n − (r−1)(c−1)/(n−1)), r' = r − (r−1)²/(n−1), c' alike, and
V = √(φ² / (min(r', c') − 1)), at most 1; without the correction sparse tables look associated by chance alone. The
correlation is Pearson's, of the codes of columns whose codes are in order (ordered, integer, real, datetime); rows in
which either value is missing or "other" are left out of that pair. A column that does not vary goes with nothing: 0.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_table
from openprior.evaluation.copies import check_tables
from openprior.schema.base import Schema
from openprior.tables.encode import Table

__all__ = ["Associations", "Compared", "associations_of", "correlation", "cramers_v"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_ORDERED = ("ordered", "integer", "real", "datetime")
_DENSE = 1 << 20
"""A pair with more cells is counted by its rows' distinct values."""


@dataclass(frozen=True)
class Compared:
    """A measure of every pair of columns in both tables. NOT PRIVATE."""

    names: tuple[str, ...]
    private: Floats = field(repr=False)
    released: Floats = field(repr=False)

    @property
    def difference(self) -> Floats:
        """Released minus private, columns × columns."""
        return self.released - self.private

    @property
    def mean(self) -> float:
        """Mean absolute difference over the pairs; nan if there is none."""
        gaps = self._gaps()
        return float(gaps.mean()) if gaps.size else float("nan")

    @property
    def largest(self) -> float:
        """Largest absolute difference; nan without pairs."""
        gaps = self._gaps()
        return float(gaps.max()) if gaps.size else float("nan")

    @property
    def worst(self) -> tuple[str, str] | None:
        """The pair with the largest difference."""
        gaps = self._gaps()
        if not gaps.size:
            return None
        above = np.triu_indices(len(self.names), 1)
        i = int(gaps.argmax())
        return self.names[above[0][i]], self.names[above[1][i]]

    def _gaps(self) -> Floats:
        return np.abs(self.difference[np.triu_indices(len(self.names), 1)])

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "names": list(self.names),
            "mean": self.mean,
            "largest": self.largest,
            "worst": self.worst,
            "difference": self.difference.tolist(),
        }


@dataclass(frozen=True)
class Associations:
    """Associations of all pairs of columns, and correlations of those in order. NOT PRIVATE."""

    cramers_v: Compared
    correlation: Compared


def associations_of(released: Table, private: Table, schema: Schema) -> Associations:
    """Compare how columns go together in the two tables. NOT PRIVATE."""
    check_tables(released, private)
    names = private.domain.attributes
    values = [schema[a].count if schema[a].kind in _ORDERED else 0 for a in names]
    ordered = [i for i, count in enumerate(values) if count]
    matrices = []
    for table in (private, released):
        v, r = np.eye(len(names)), np.eye(len(names))
        for i, j, codes in _pairs(table):
            v[i, j] = v[j, i] = cramers_v(*codes)
            if values[i] and values[j]:
                r[i, j] = r[j, i] = correlation(*codes, values[i], values[j])
        matrices.append((v, r[np.ix_(ordered, ordered)]))
    (v, r), (released_v, released_r) = matrices
    return Associations(
        Compared(names, v, released_v), Compared(tuple(names[i] for i in ordered), r, released_r)
    )


def _pairs(table: Table) -> Iterator[tuple[int, int, tuple[Ints, Ints, Ints]]]:
    """Every pair of columns: its cells that have rows, as codes of either column and counts."""
    names, shape = table.domain.attributes, table.domain.shape
    for i, first in enumerate(names):
        dense = [j for j in range(i + 1, len(names)) if shape[i] * shape[j] <= _DENSE]
        counts = count_table(table, [(first, names[j]) for j in dense]) if dense else {}
        for j in range(i + 1, len(names)):
            pair = (first, names[j])
            if pair in counts:
                cells = np.flatnonzero(counts[pair])
                yield i, j, (cells // shape[j], cells % shape[j], counts[pair][cells])
            else:
                both = Table(table.domain.project(pair), (table.columns[i], table.columns[j]))
                distinct, often = both.unique()
                one, other = (c.astype(np.int64) for c in distinct.columns)
                yield i, j, (one, other, often)


def cramers_v(first: Ints, second: Ints, counts: Ints) -> float:
    """Bias-corrected Cramér's V of a pair, from the cells that have rows."""
    n = int(counts.sum())
    of_first, of_second = np.bincount(first, counts), np.bincount(second, counts)
    r, c = np.count_nonzero(of_first), np.count_nonzero(of_second)
    if r < 2 or c < 2 or n < 3:
        return 0.0
    phi = float((counts**2 / (of_first[first] * of_second[second])).sum()) - 1.0
    phi = max(0.0, phi - (r - 1) * (c - 1) / (n - 1))
    room = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1.0
    return min(1.0, (phi / room) ** 0.5) if room > 0.0 else 0.0


def correlation(first: Ints, second: Ints, counts: Ints, values: int, others: int) -> float:
    """Pearson's correlation of codes below `values` and `others`, from the cells that have rows."""
    known = (first < values) & (second < others)
    weight = counts[known].astype(np.float64)
    if weight.sum() < 2.0:
        return 0.0
    x, y = first[known].astype(np.float64), second[known].astype(np.float64)
    x -= np.average(x, weights=weight)
    y -= np.average(y, weights=weight)
    spread = float(weight @ (x * x)) * float(weight @ (y * y))
    return float(np.clip((weight @ (x * y)) / spread**0.5, -1.0, 1.0)) if spread > 0.0 else 0.0

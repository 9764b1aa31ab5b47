"""What a release lost of every column before any noise: raw private values against raw released ones. NOT PRIVATE.

A workload error compares codes, and codes cannot see what the schema did: a column that was clipped to one value is
released without error and is wrong all the same. So here the values themselves are compared, as they are stored, and
beside that stands how far the codes are apart and what became of the private values on their way to a code.

The distance of numbers and dates is Kolmogorov's, the largest difference between their cumulative shares (missing
values lie beyond the last number); of listed values it is the total variation, half the L1 distance, in which a value
that is not listed is like nothing released. Both are shares of rows, 0 to 1.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import SourceError
from openprior.questions.workload import Marginal
from openprior.releases.view import counted
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.columns import Column
from openprior.schema.fates import FATES, OUTSIDE, Fate, effect, outside_of, with_fates
from openprior.schema.reading_rules import Reading
from openprior.tables.fate_codes import FateCoder
from openprior.tables.lookup import column_numbers
from openprior.tables.source import Source, open_source

__all__ = ["LARGE", "Loss", "losses_of", "warning_of"]

LARGE = 0.05
"""The share of rows from which a loss is told before anything else."""

_RARELY = 1.63
"""Kolmogorov's distance of samples of n and m rows is beyond 1.63·√(1/n + 1/m) in 1 of 100 cases."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Loss:
    """One column. NOT PRIVATE."""

    column: str
    before: float
    """The distance of private and released values, as they are stored."""
    after: float
    """The distance of private and released codes: what is left to see once the schema has done its work."""
    shares: Mapping[str, float]
    """The share of private rows by what became of them: inside, first, last, below, above, not listed, …"""
    effects: Mapping[str, str]
    """What the schema made of those that do not fit."""
    by_chance: float = 0.0
    """The distance that two samples of so many rows from one population rarely have (1 in 100)."""

    @property
    def outside(self) -> float:
        """The share of private rows whose value the column cannot hold as it is."""
        return sum(self.shares[FATES[fate]] for fate in OUTSIDE)

    @property
    def unseen(self) -> float:
        """How much of the distance the codes do not show."""
        return max(self.before - self.after, 0.0)

    @property
    def is_large(self) -> bool:
        """Whether the schema hides more than a few rows in a hundred, and more than chance would."""
        return self.unseen >= max(LARGE, self.by_chance)

    @property
    def words(self) -> str:
        """What became of the values that do not fit."""
        parts = [
            f"{share:.1%} {fate} ({self.effects[fate]})"
            for fate, share in self.shares.items()
            if fate in self.effects and share > 0
        ]
        return ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "before": self.before,
            "after": self.after,
            "outside": self.outside,
            "shares": dict(self.shares),
            "effects": dict(self.effects),
        }


def losses_of(
    released: Any, private: Any, schema: Schema, released_schema: Schema | None = None
) -> tuple[Loss, ...]:
    """The losses of all columns, largest distance first; released rows may be spelled otherwise. NOT PRIVATE."""
    spelled = schema if released_schema is None else released_schema
    rows, truth = open_source(released, spelled), open_source(private, schema)
    wider, fates = with_fates(schema)
    marginals: list[Marginal] = [(name,) for name in wider.names]
    theirs, n = counted(truth, wider, marginals, private=True)
    ours, m = counted(rows, spelled, marginals[: len(schema.names)], private=False)
    before = _raw(rows, truth, schema, spelled, fates)
    found = []
    for column in schema.columns:
        p, q = theirs[(column.name,)] / n, ours[(column.name,)] / m
        became = theirs[(fates[column.name].name,)] / n
        found.append(
            Loss(
                column=column.name,
                before=before[column.name],
                after=_distance(column, p, q),
                shares=dict(zip(FATES, became.tolist(), strict=True)),
                effects={FATES[fate]: effect(column, fate) for fate in outside_of(column)},
                by_chance=_RARELY * math.sqrt(1 / n + 1 / m),
            )
        )
    return tuple(sorted(found, key=lambda loss: -loss.before))


def warning_of(losses: tuple[Loss, ...]) -> str | None:
    """The largest loss in words, if the schema makes it large; it is the first thing to be read."""
    lost = [loss for loss in losses if loss.is_large]
    if not lost:
        return None
    worst = max(lost, key=lambda loss: loss.before)
    why = f": {worst.words}" if worst.outside else ""
    also = [loss.column for loss in lost if loss is not worst]
    more = f"; also {', '.join(also[:5])}{' and more' if len(also) > 5 else ''}" if also else ""
    return (
        f"LARGE LOSS in column '{worst.column}': its released values are {worst.before:.1%} off, of which the codes "
        f"show {worst.after:.1%}{why}{more}; widen the schema and release anew"
    )


def _distance(column: Column, p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    if isinstance(column, Binned):
        return float(np.abs(np.cumsum(p) - np.cumsum(q)).max())
    return float(np.abs(p - q).sum()) / 2


def _raw(
    rows: Source, truth: Source, schema: Schema, spelled: Schema, fates: Mapping[str, Fate]
) -> dict[str, float]:
    """The distances of the values, one pass over each table."""
    comparing: dict[str, _Steps | _Listed] = {
        column.name: _Steps(column, schema.reading, spelled.reading)
        if isinstance(column, Binned)
        else _Listed(fates[column.name], schema.reading, spelled.reading)
        for column in schema.columns
    }
    for batch in rows.batches(schema.names):
        for name, compared in comparing.items():
            compared.release(batch.column(name))
    for batch in truth.batches(schema.names):
        for name, compared in comparing.items():
            compared.add(batch.column(name))
    return {name: compared.distance() for name, compared in comparing.items()}


class _Listed:
    """Listed values, missing, and those that fit nothing."""

    def __init__(self, fate: Fate, reading: Reading, released: Reading) -> None:
        self._coder, self._released = FateCoder(fate, reading), FateCoder(fate, released)
        self._known = fate.probe.size  # the listed values and missing
        self._ours = np.zeros(self._coder.probe.refused_null + 1, np.int64)
        self._theirs = self._ours.copy()

    def release(self, array: Any) -> None:
        self._ours += self._count(self._released, array)

    def add(self, array: Any) -> None:
        self._theirs += self._count(self._coder, array)

    def _count(self, coder: FateCoder, array: Any) -> Counts:
        counts: Counts = np.bincount(coder.codes(array), minlength=len(self._ours))
        return counts

    def distance(self) -> float:
        p, q = self._theirs / _rows(self._theirs), self._ours / _rows(self._ours)
        apart = np.abs(p - q)[: self._known].sum() + p[self._known :].sum() + q[self._known :].sum()
        return float(apart) / 2


class _Steps:
    """Numbers: cumulative shares, at every released number and between two of them."""

    def __init__(self, column: Binned, reading: Reading, released: Reading) -> None:
        self._column, self._reading, self._released = column, reading, released
        self._parts: list[NDArray[Any]] = []
        self._without = 0  # released rows without a number
        self._grid: NDArray[Any] | None = None
        self._ours = self._theirs = np.zeros(0, np.int64)
        self._lacking = 0  # private ones

    def release(self, array: Any) -> None:
        values = self._numbers(array, self._released)
        self._parts.append(values)
        self._without += len(array) - len(values)

    def add(self, array: Any) -> None:
        if self._grid is None:
            joined = np.concatenate(self._parts) if self._parts else np.zeros(0)
            self._grid, counts = np.unique(joined, return_counts=True)
            self._ours = np.zeros(2 * len(self._grid) + 1, np.int64)
            self._ours[1::2] = counts
            self._theirs, self._parts = np.zeros_like(self._ours), []
        values = self._numbers(array, self._reading)
        self._lacking += len(array) - len(values)
        if len(self._grid):
            # Slot 2i is between grid points i − 1 and i, slot 2i + 1 is grid point i.
            place = np.searchsorted(self._grid, values)
            met = self._grid[np.minimum(place, len(self._grid) - 1)] == values
            self._theirs += np.bincount(2 * place + met, minlength=len(self._theirs))
        else:
            self._theirs[0] += len(values)

    def _numbers(self, array: Any, reading: Reading) -> NDArray[Any]:
        """Those that are numbers."""
        parsed = column_numbers(self._column, array, reading)
        values: NDArray[Any] = parsed.merged()
        keep = np.ones(len(values), np.bool_)
        for marked in (parsed.null, parsed.unparsed):
            if marked is not None:
                keep &= ~marked
        return values[keep]

    def distance(self) -> float:
        n, m = (self._theirs.sum() + self._lacking), (self._ours.sum() + self._without)
        if not n or not m:
            raise SourceError("there are no rows to compare; give a table with at least one")
        return float(np.abs(np.cumsum(self._theirs) / n - np.cumsum(self._ours) / m).max())


def _rows(counts: Counts) -> int:
    return max(int(counts.sum()), 1)

"""Values inside bins: drawn from the public values of a bin where those are fit for it, else from all of the bin alike.

A code says only which bin. Public values show how a column is spread inside it: heaps at round numbers, zeros. But they
are of another time or place. Where a bin has none, or where they end before it does (the years after the public table
was made, say), to draw from them would leave a gap that the private table need not have, so there the draw is uniform
over the whole bin, at the column's step. Public values are fit for a bin if they *reach both its ends*: the gap to each
is at most one step, a tenth of the bin, or the widest gap between four or more of them (codes and first days of months
have gaps everywhere). An end that is open has no gap.

None of this uses private data: it is post-processing of the codes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.schema.bins import Binned, Datetime, Integer, Real
from openprior.schema.edges import FIRST_MOMENT, LAST_MOMENT
from openprior.schema.reading_rules import Reading
from openprior.tables.lookup import Coder, column_numbers
from openprior.tables.number_keys import rounded

__all__ = ["Inside", "Reservoir"]

_PER_BIN = 256
_NEAR = 0.1
"""The part of a bin that may lie between its end and the public value next to it."""
_GAPS = 3
"""So many gaps between public values of a bin show how far apart they are."""

Values = npt.NDArray[Any]


class Reservoir:
    """The public values of a column: a sample of at most 256 per bin, and the least and the greatest of all.

    Each value gets a random key, and the smallest keys of a bin stay, so the sample is uniform.
    """

    def __init__(self, column: Binned, reading: Reading, rng: np.random.Generator) -> None:
        self._column, self._reading, self._rng = column, reading, rng
        self._coder = Coder(column, reading)
        self.values = np.zeros(0, np.int64 if column.grain else np.float64)
        self._codes = np.zeros(0, np.int64)
        self._keys = np.zeros(0)
        self._bar = np.ones(column.count)  # keys above it cannot enter their bin any more
        low, high = column.bounds
        self.least = np.full(column.count, high, self.values.dtype)
        self.greatest = np.full(column.count, low, self.values.dtype)

    PARTS = ("values", "codes", "least", "greatest")
    """What `arrays` gives."""

    def arrays(self) -> dict[str, Values]:
        """What it holds, to be kept; `of` makes it again."""
        return dict(zip(self.PARTS, (self.values, self._codes, self.least, self.greatest), strict=True))

    @classmethod
    def of(cls, column: Binned, reading: Reading, arrays: Mapping[str, Values]) -> "Reservoir":
        """One that was kept; a ValueError if the arrays are none of this column."""
        held = cls(column, reading, np.random.default_rng(0))
        values, codes, least, greatest = (arrays[part] for part in cls.PARTS)
        kind = held.values.dtype
        if any(a.dtype != kind or not np.isfinite(a).all() for a in (values, least, greatest)):
            raise ValueError("its values are of another kind")
        if not all(np.array_equal(held._held(a), a) for a in (values, least, greatest)):
            raise ValueError("it has values that the column cannot hold")
        if codes.dtype != np.int64 or codes.ndim != 1 or values.shape != codes.shape:
            raise ValueError("its bins are of another kind")
        if least.shape != (column.count,) or greatest.shape != (column.count,):
            raise ValueError("its ends are of another number")
        if len(codes) and (codes[0] < 0 or codes[-1] >= column.count or (np.diff(codes) < 0).any()):
            raise ValueError("its bins are out of order")
        held.values, held._codes, held.least, held.greatest = values, codes, least, greatest
        return held

    def add(self, array: pa.Array) -> None:
        """Take in a batch of the public table."""
        codes = self._coder(array).astype(np.int64)
        keys = self._rng.random(len(codes))
        known = codes < self._column.count
        values = self._held(column_numbers(self._column, array, self._reading).merged()[known])
        codes, keys = codes[known], keys[known]
        np.minimum.at(self.least, codes, values)
        np.maximum.at(self.greatest, codes, values)
        enter = keys < self._bar[codes]
        values = np.concatenate([self.values, values[enter]])
        codes, keys = np.concatenate([self._codes, codes[enter]]), np.concatenate([self._keys, keys[enter]])
        order = np.lexsort((keys, codes))
        values, codes, keys = values[order], codes[order], keys[order]
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
        last = rank == _PER_BIN - 1
        self._bar[codes[last]] = keys[last]
        stay = rank < _PER_BIN
        self.values, self._codes, self._keys = values[stay], codes[stay], keys[stay]

    def _held(self, values: Values) -> Values:
        """The values as the column has them: within its bounds, or beyond open ends what its type can hold."""
        low, high = self._column.bounds
        inside: Values = np.clip(values, low, high)
        if self._column.is_open:
            first, last = _limits(self._column)
            inside = np.where((values >= first) & (values <= last), values, inside)
        return inside.astype(self.values.dtype)

    @property
    def widest(self) -> npt.NDArray[np.float64]:
        """The widest gap between two neighbours of the sample, in each bin; 0 where they are too few to show one."""
        order = np.lexsort((self.values, self._codes))
        values, codes = self.values[order].astype(np.float64), self._codes[order]
        with np.errstate(over="ignore"):
            gaps = np.where(np.diff(codes) == 0, np.diff(values), 0.0)
        found = np.zeros(self._column.count)
        np.maximum.at(found, codes[1:], gaps)
        several = np.bincount(codes[1:][gaps > 0], minlength=len(found)) >= _GAPS
        return np.where(several, found, 0.0)

    @property
    def offsets(self) -> Values:
        """Where the values of each bin begin."""
        return np.searchsorted(self._codes, np.arange(self._column.count + 1))


class Inside:
    """How the values of a column with bins are drawn, bin by bin."""

    def __init__(self, column: Binned, public: Reservoir | None = None) -> None:
        self._column = column
        self._first, self._last = _ends(column)
        self._is_public = np.zeros(column.count, np.bool_)
        if public is not None:
            self._values, self._offsets = public.values, public.offsets
            if column.values_inside == "public":
                self._is_public = self._reaches(public)

    @property
    def bins(self) -> dict[str, int]:
        """How many bins draw from public rows, and how many uniformly."""
        public = int(self._is_public.sum())
        return {"public": public, "uniform": self._column.count - public}

    def draw(self, codes: Values, rng: np.random.Generator) -> Values:
        """One value per code, in ticks."""
        column = self._column
        if column.grain or column.step is not None:
            first, last = column.multiples
            # A bin may be finer than the type's grain: its only value is then the next one.
            steps = rng.integers(first[codes], np.maximum(first, last)[codes], endpoint=True)
            values: Values = _from_steps(column, steps)
        else:
            share = rng.random(len(codes))
            values = self._first[codes] * (1 - share) + self._last[codes] * share
        values = np.clip(_as_stored(column, values), self._first[codes], self._last[codes])
        if self._is_public.any():
            held = self._offsets[codes + 1] - self._offsets[codes]
            pick = self._offsets[codes] + (rng.random(len(codes)) * held).astype(np.int64)
            has = self._is_public[codes]
            values[has] = self._from_public(pick[has], codes[has])
        return values

    def _from_public(self, pick: Values, codes: Values) -> Values:
        """Public values as they are stored, kept in their bins; those of an open end may lie beyond it."""
        values = _as_stored(self._column, self._values[pick])
        first, last = self._first[codes], self._last[codes]
        if self._column.is_open:
            first = np.where(codes == 0, np.minimum(first, values), first)
            last = np.where(codes == self._column.count - 1, np.maximum(last, values), last)
        kept: Values = np.clip(values, first, last)
        return kept

    def _reaches(self, public: Reservoir) -> npt.NDArray[np.bool_]:
        # Doubles are good enough for widths, and do not overflow.
        left, right = self._first.astype(np.float64), self._last.astype(np.float64)
        step = self._column.step if isinstance(self._column, Real) else self._column.grid
        with np.errstate(over="ignore"):  # infinitely near is near
            near = np.maximum((right - left) * _NEAR, step or 0.0)
            near = np.maximum(near, public.widest) * (1 + 1e-9)
        below = public.least - left <= near
        above = right - public.greatest <= near
        if self._column.is_open:
            below[0] = above[-1] = True
        reaches: npt.NDArray[np.bool_] = (np.diff(public.offsets) > 0) & below & above
        return reaches


def _ends(column: Binned) -> tuple[Values, Values]:
    """The first and last value that a bin can give, within the bounds: on the grid, or floats as they are stored."""
    if column.grain:
        first, last = column.multiples
        return _from_steps(column, first), _from_steps(column, np.maximum(first, last))
    left, right, closed = column.spans
    left, right = _as_stored(column, left), _as_stored(column, right)
    below = np.nextafter(right.astype(_width(column)), -np.inf, dtype=_width(column)).astype(np.float64)
    return left, np.where(closed, right, np.maximum(below, left))


def _from_steps(column: Binned, steps: Values) -> Values:
    """The values that are so many steps."""
    precision = column.precision if isinstance(column, Real) else None
    values: Values = steps * column.grid if precision is None else precision.values(steps)
    return values


def _limits(column: Binned) -> tuple[int | float, int | float]:
    """The first and last value that the column's type can hold."""
    kind = column.arrow
    if isinstance(column, Datetime):
        if getattr(kind, "unit", "") == "ns" and not column.is_time:
            return -(2**63) // 1000 + 1, (2**63 - 1) // 1000
        return FIRST_MOMENT, LAST_MOMENT
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return max(int(limits.min), -(2**63)), min(int(limits.max), 2**63 - 1)
    if isinstance(column, Integer):
        return -(2**53), 2**53
    largest = float(np.finfo(_width(column)).max)
    return -largest, largest


def _width(column: Binned) -> npt.DTypeLike:
    kind: npt.DTypeLike = column.arrow.to_pandas_dtype() if pa.types.is_floating(column.arrow) else np.float64
    return kind


def _as_stored(column: Binned, values: Values) -> Values:
    return values if column.grain else rounded(values, _width(column))

"""From integer codes back to a table: labels, Arrow types, and inside a bin a value of the public table.

A code says only which bin; the value inside it is drawn from up to 256 public values of that bin, uniformly
where there are none. That uses no private data: decoding is post-processing of the codes.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import EncodeError
from openprior.schema.base import Schema
from openprior.schema.bins import Binned, Datetime, Integer
from openprior.schema.columns import Column, Labelled, free_label, is_string
from openprior.schema.reading_rules import Reading
from openprior.tables.lookup import Coder, column_numbers, rounded
from openprior.tables.source import open_source
from openprior.tables.table import Table

__all__ = ["Decoder"]

_PER_BIN = 256

Values = npt.NDArray[Any]


class Decoder:
    """A schema and, for each binned column, public values sorted by bin (`pools[name]` = values, offsets)."""

    def __init__(self, schema: Schema, pools: dict[str, tuple[Values, Values]] | None = None) -> None:
        self.schema = schema
        self._pools = pools or {}

    @classmethod
    def fit(cls, schema: Schema, public: object | None, *, rng: np.random.Generator) -> "Decoder":
        """Keep up to 256 public values per bin, drawn uniformly, from anything `open_source` takes."""
        columns = [c for c in schema.columns if isinstance(c, Binned) and c.bins]
        if public is None or not columns:
            return cls(schema)
        source = open_source(public, schema)
        schema.check_columns(source.columns, "public table", list_columns=True)
        reservoirs = {c.name: _Reservoir(c, schema.reading, rng) for c in columns}
        for batch in source.batches([c.name for c in columns]):
            for name, reservoir in reservoirs.items():
                reservoir.add(batch.column(name))
        return cls(schema, {name: reservoir.pool() for name, reservoir in reservoirs.items()})

    def decode(self, table: Table, rng: np.random.Generator) -> pa.Table:
        """The table with labels and types; missing becomes null, `other` the text "other" or null."""
        if table.domain != self.schema.domain:
            raise EncodeError("the codes are of another domain than the schema; encode them with this schema")
        arrays = [
            self._decode(c, codes, rng) for c, codes in zip(self.schema.columns, table.columns, strict=True)
        ]
        return pa.table(arrays, names=list(self.schema.names))

    def _decode(self, column: Column, codes: Values, rng: np.random.Generator) -> pa.Array:
        known = codes < column.count
        if isinstance(column, Labelled):
            array = _labels(column).take(pa.array(codes))
        else:
            assert isinstance(column, Binned)
            values = np.zeros(len(codes), np.int64 if column.step else np.float64)
            values[known] = self._draw(column, codes[known].astype(np.int64), rng)
            array = _typed(column, pa.array(values, mask=~known))
        if column.other_code is not None and is_string(column.arrow):
            word = pa.scalar(free_label("other", column.value_labels), array.type)
            array = pc.if_else(pa.array(codes == column.other_code), word, array)
        return array

    def _draw(self, column: Binned, codes: Values, rng: np.random.Generator) -> Values:
        if isinstance(column, Integer) and not column.bins:
            own: Values = codes + column.low
            return own
        first, last = _ends(column)
        if column.step:
            values: Values = rng.integers(first[codes], last[codes], endpoint=True) * column.step
            first, last = first * column.step, last * column.step
        else:
            share = rng.random(len(codes))
            values = first[codes] * (1 - share) + last[codes] * share
        if column.name in self._pools:
            pool, offsets = self._pools[column.name]
            held = offsets[codes + 1] - offsets[codes]
            pick = offsets[codes] + (rng.random(len(codes)) * held).astype(np.int64)
            has = held > 0
            values[has] = pool[pick[has]]
        inside: Values = np.clip(_as_stored(column, values), first[codes], last[codes])
        return inside


class _Reservoir:
    """A uniform sample of at most 256 values per bin: each value gets a random key, the smallest stay."""

    def __init__(self, column: Binned, reading: Reading, rng: np.random.Generator) -> None:
        self._column, self._reading, self._rng = column, reading, rng
        self._coder = Coder(column, reading)
        self._values = np.zeros(0, np.int64 if column.step else np.float64)
        self._codes = np.zeros(0, np.int64)
        self._keys = np.zeros(0)
        self._bar = np.ones(column.count)  # keys above it cannot enter their bin any more

    def add(self, array: pa.Array) -> None:
        codes = self._coder(array).astype(np.int64)
        keys = self._rng.random(len(codes))
        enter = codes < self._column.count
        enter[enter] = keys[enter] < self._bar[codes[enter]]
        low, high = self._column.bounds
        found = column_numbers(self._column, array, self._reading).merged()
        values = np.clip(found[enter], low, high).astype(self._values.dtype)
        values = np.concatenate([self._values, values])
        codes, keys = np.concatenate([self._codes, codes[enter]]), np.concatenate([self._keys, keys[enter]])
        order = np.lexsort((keys, codes))
        values, codes, keys = values[order], codes[order], keys[order]
        rank = np.arange(len(codes)) - np.searchsorted(codes, codes)
        last = rank == _PER_BIN - 1
        self._bar[codes[last]] = keys[last]
        stay = rank < _PER_BIN
        self._values, self._codes, self._keys = values[stay], codes[stay], keys[stay]

    def pool(self) -> tuple[Values, Values]:
        return self._values, np.searchsorted(self._codes, np.arange(self._column.count + 1))


def _labels(column: Labelled) -> pa.Array:
    """The labels as an array with a null for each code that is no value."""
    kind = column.arrow
    values = pa.array(column.value_labels if is_string(kind) else column.values, kind)
    return pa.concat_arrays([values, pa.nulls(column.size - column.count, kind)])


def _ends(column: Binned) -> tuple[Values, Values]:
    """The first and last value of each bin within the bounds: grid points, or floats as stored."""
    low, high = column.bounds
    edges = column.edges
    left, right = np.maximum(edges[:-1], low), np.minimum(edges[1:], high)
    closed = edges[1:] > high  # a bin that the bound cuts short ends at the bound, inclusive
    closed[-1] = True
    if column.step:
        first = -(-left // column.step)
        return first, np.maximum(np.where(closed, right, right - 1) // column.step, first)
    left, right = _as_stored(column, left), _as_stored(column, right)
    below = np.nextafter(right.astype(_width(column)), -np.inf, dtype=_width(column)).astype(np.float64)
    return left, np.where(closed, right, np.maximum(below, left))


def _width(column: Binned) -> npt.DTypeLike:
    kind: npt.DTypeLike = column.arrow.to_pandas_dtype() if pa.types.is_floating(column.arrow) else np.float64
    return kind


def _as_stored(column: Binned, values: Values) -> Values:
    return values if column.step else rounded(values, _width(column))


def _typed(column: Binned, array: pa.Array) -> pa.Array:
    """Plain numbers as the column's Arrow type."""
    kind = column.arrow
    if isinstance(column, Datetime):
        if column.is_time:
            array = pc.cast(array, pa.time64("us"))
        else:
            zone = getattr(column.low, "tzinfo", None)
            array = pc.cast(array, pa.timestamp("us", "UTC" if zone else None))
            if column.step > 1 and is_string(kind):
                array = pc.cast(array, pa.date32())
    return pc.cast(array, kind, safe=False)

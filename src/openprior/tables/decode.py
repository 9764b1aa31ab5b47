"""From integer codes back to a table: labels, Arrow types, and inside a bin a value (inside.py says from where).

That uses no private data: decoding is post-processing of the codes.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import EncodeError
from openprior.schema.base import Schema
from openprior.schema.bins import Binned, Datetime
from openprior.schema.columns import Column, Labelled, free_label, is_string
from openprior.tables.inside import Inside, Reservoir
from openprior.tables.source import open_source
from openprior.tables.table import Table

__all__ = ["Decoder", "is_text"]

Values = npt.NDArray[Any]


class Decoder:
    """A schema and, for each column with bins, how the values inside them are drawn."""

    def __init__(self, schema: Schema, inside: dict[str, Inside] | None = None) -> None:
        self.schema = schema
        self._inside = inside or {column.name: Inside(column) for column in self.binned(schema)}

    @classmethod
    def fit(cls, schema: Schema, public: object | None, *, rng: np.random.Generator) -> "Decoder":
        """Keep up to 256 public values per bin, drawn uniformly, from anything `open_source` takes."""
        return cls(schema) if public is None else cls.of(schema, cls.sampled(schema, public, rng))

    @classmethod
    def of(cls, schema: Schema, values: Mapping[str, Reservoir]) -> "Decoder":
        """With these public values, by column."""
        return cls(schema, {c.name: Inside(c, values[c.name]) for c in cls.binned(schema)})

    @classmethod
    def sampled(cls, schema: Schema, public: object, rng: np.random.Generator) -> dict[str, Reservoir]:
        """Public values of every column with bins; the table is not read if there is none."""
        columns = cls.binned(schema)
        if not columns:
            return {}
        source = open_source(public, schema)
        schema.check_columns(source.columns, "public table", list_columns=True)
        reservoirs = {c.name: Reservoir(c, schema.reading, rng) for c in columns}
        for batch in source.batches([c.name for c in columns]):
            for name, reservoir in reservoirs.items():
                reservoir.add(batch.column(name))
        return reservoirs

    @staticmethod
    def binned(schema: Schema) -> list[Binned]:
        """The columns that have bins."""
        return [c for c in schema.columns if isinstance(c, Binned) and c.bins]

    @property
    def values_inside(self) -> dict[str, dict[str, int]]:
        """Of every column with bins, how many bins draw from public rows and how many uniformly."""
        return {name: inside.bins for name, inside in self._inside.items()}

    def decode(self, table: Table, rng: np.random.Generator, *, packed: bool = False) -> pa.Table:
        """The table with labels and types; missing becomes null, `other` the text "other" or null.

        packed   listed texts as dictionaries: each text once, and the rows' places in them
        """
        if table.domain != self.schema.domain:
            raise EncodeError("the codes are of another domain than the schema; encode them with this schema")
        arrays = [
            _packed(c, codes) if packed and is_text(c) else self._decode(c, codes, rng)
            for c, codes in zip(self.schema.columns, table.columns, strict=True)
        ]
        return pa.table(arrays, names=list(self.schema.names))

    def _decode(self, column: Column, codes: Values, rng: np.random.Generator) -> pa.Array:
        known = codes < column.count
        if isinstance(column, Labelled):
            array = _labels(column).take(pa.array(codes))
        else:
            assert isinstance(column, Binned)
            values = np.zeros(len(codes), np.int64 if column.grain else np.float64)
            inside = codes[known].astype(np.int64)
            # Without bins, every number has a code of its own.
            values[known] = (
                self._inside[column.name].draw(inside, rng) if column.bins else inside + column.low
            )
            array = _typed(column, pa.array(values, mask=~known))
        if column.other_code is not None and is_string(column.arrow):
            word = pa.scalar(free_label("other", column.value_labels), array.type)
            array = pc.if_else(pa.array(codes == column.other_code), word, array)
        return array


def is_text(column: Column) -> bool:
    """Whether its values are listed texts, which can be packed."""
    return isinstance(column, Labelled) and is_string(column.arrow)


def _packed(column: Column, codes: Values) -> pa.Array:
    """Listed texts as a dictionary of all of them."""
    texts, places = list(column.value_labels), codes.astype(np.int32)
    if column.other_code is not None:
        places[codes == column.other_code] = len(texts)
        texts.append(free_label("other", column.value_labels))
    known = (codes < column.count) | (codes == column.other_code)
    return pa.DictionaryArray.from_arrays(pa.array(places, mask=~known), pa.array(texts, column.arrow))


def _labels(column: Labelled) -> pa.Array:
    """The labels as an array with a null for each code that is no value."""
    kind = column.arrow
    values = pa.array(column.value_labels if is_string(kind) else column.values, kind)
    return pa.concat_arrays([values, pa.nulls(column.size - column.count, kind)])


def _typed(column: Binned, array: pa.Array) -> pa.Array:
    """Plain numbers as the column's Arrow type."""
    kind = column.arrow
    if isinstance(column, Datetime):
        if column.is_time:
            array = pc.cast(array, pa.time64("us"))
        else:
            zone = getattr(column.low, "tzinfo", None)
            array = pc.cast(array, pa.timestamp("us", "UTC" if zone else None))
            if column.grain > 1 and is_string(kind):
                array = pc.cast(array, pa.date32())
    return pc.cast(array, kind, safe=False)

"""Small whole numbers on their way from Spark to Python: several to a 64-bit word.

Spark hands rows over one value at a time, so fewer and wider columns are faster. A column of the schema that runs from
low to high needs few bits, because all numbers below it mean the same to the encoder, and so do all above it: they
travel as low − 1 and high + 1, and null as a code of its own. What arrives is an ordinary column of integers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from openprior.schema.base import Schema
from openprior.schema.bins import Integer

__all__ = ["Packing", "spans"]

Span = tuple[int, int]

_WORD = 63
_MOST_BITS = 20


@dataclass(frozen=True)
class _Field:
    name: str
    low: int
    high: int
    word: int
    shift: int
    bits: int

    def expression(self, place: str) -> str:
        """Null is 0, below is 1, low is 2, above is the last."""
        above = self.high - self.low + 3
        code = (
            f"CASE WHEN {place} IS NULL THEN 0L WHEN {place} < {self.low}L THEN 1L "
            f"WHEN {place} > {self.high}L THEN {above}L ELSE CAST({place} AS BIGINT) - {self.low}L + 2L END"
        )
        return f"shiftleft({code}, {self.shift})"

    def array(self, word: pa.Array) -> pa.Array:
        """The column again."""
        codes = ((word.to_numpy() >> self.shift) & ((1 << self.bits) - 1)).astype(np.int32)
        null = codes == 0
        kind = np.int32 if max(abs(self.low), abs(self.high)) < 2**30 else np.int64
        return pa.array(
            codes.astype(kind, copy=False) + kind(self.low - 2), mask=null if null.any() else None
        )


class Packing:
    """Which columns travel in which word."""

    def __init__(self, columns: Sequence[str], span_of: Mapping[str, Span]) -> None:
        self.columns = tuple(columns)
        self._fields: dict[str, _Field] = {}
        word, shift = 0, 0
        for name in columns:
            if name not in span_of:
                continue
            low, high = span_of[name]
            bits = (high - low + 3).bit_length()
            if shift + bits > _WORD:
                word, shift = word + 1, 0
            self._fields[name] = _Field(name, low, high, word, shift, bits)
            shift += bits

    def expressions(self, places: Mapping[str, str]) -> list[str]:
        """SQL for the words, then the other columns; `places` are the columns' names in the frame."""
        words: dict[int, list[str]] = {}
        for field in self._fields.values():
            words.setdefault(field.word, []).append(field.expression(places[field.name]))
        packed = [f"{' | '.join(parts)} AS w{word}" for word, parts in words.items()]
        return packed + [places[name] for name in self.columns if name not in self._fields]

    def unpack(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """On an executor: the batches as they were, with the columns' own names."""
        for batch in batches:
            rest = iter(batch.columns[len({field.word for field in self._fields.values()}) :])
            arrays = []
            for name in self.columns:
                field = self._fields.get(name)
                arrays.append(next(rest) if field is None else field.array(batch.column(field.word)))
            yield pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def spans(schema: Schema) -> dict[str, Span]:
    """From where to where a column's numbers differ for the encoder, where that takes few bits."""
    narrow: dict[str, Span] = {}
    for column in schema.columns:
        if isinstance(column, Integer):
            low, high = (int(bound) for bound in column.bounds)
            if high - low < 1 << _MOST_BITS and max(abs(low), abs(high)) < 2**62:
                narrow[column.name] = (low, high)
    return narrow

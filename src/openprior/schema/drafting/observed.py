"""Whether the values of a column are those of an identifier: how many differ, and whether they run from row to row."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from openprior.schema.bins import Integer, Real
from openprior.schema.columns import MISSING_TOKENS, Categorical, Column, Ordered, is_string
from openprior.schema.identifiers import Observed, is_named_like_identifier
from openprior.schema.reading_rules import Reading
from openprior.tables.convert import numbers, text
from openprior.tables.source import Source
from openprior.tables.unwrap import plain

__all__ = ["observed"]

_WITHOUT_GAPS = 0.9  # share of the numbers from lowest to highest that occur, for a running number


def observed(column: Column, table: pa.Table, source: Source, reading: Reading) -> Observed:
    """What there is to see of a column: is it an identifier?"""
    values = plain(table["value"])
    present = values.is_valid()
    if is_string(values.type):
        gaps = pa.array((*MISSING_TOKENS, *reading.null_values))
        present = pc.and_(present, pc.invert(pc.is_in(text(values), gaps)))
    is_whole = isinstance(column, Integer)
    if isinstance(column, Ordered | Real) and is_named_like_identifier(
        column.name
    ):  # +49 30 as a number, say
        found = numbers(values.filter(present), reading).values
        is_whole = bool((found == np.floor(found)).all())
    seen = Observed(
        name=column.name,
        rows=pc.sum(table["count"].filter(present)).as_py() or 0,
        distinct=pc.sum(present).as_py() or 0,
        is_text=isinstance(column, Categorical),
        is_whole=is_whole,
    )
    if not (is_whole and seen.is_nearly_unique):
        return seen
    found = numbers(values.filter(present), reading).values
    span = float(found.max()) - float(found.min()) + 1
    return replace(
        seen,
        is_running=seen.distinct >= _WITHOUT_GAPS * span or _rises(source.batches([column.name]), reading),
    )


def _rises(batches: Iterable[pa.RecordBatch], reading: Reading) -> bool:
    """Whether the numbers of the only column never fall from row to row."""
    last = -np.inf
    for batch in batches:
        array = plain(batch.column(0)).drop_null()
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        values = np.append(last, numbers(array, reading).values)
        if (values[1:] < values[:-1]).any():
            return False
        last = values[-1]
    return True

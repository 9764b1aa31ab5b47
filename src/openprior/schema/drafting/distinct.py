"""The distinct values of every column, counted in one pass: all that a draft decides on.

Only public data may come here: domains, labels and bin edges taken from private data would be released without noise.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from openprior.errors import SchemaError, SourceError
from openprior.schema.columns import is_string
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.tables.convert import text
from openprior.tables.source import Source
from openprior.tables.unwrap import plain, unreadable

__all__ = ["Counts", "Distinct", "Options", "count_columns", "merged"]

_PARTS = 64  # partial counts held before they are merged


@dataclass(frozen=True)
class Options:
    """How a person wants a draft."""

    bins: int
    max_values: int
    other: bool
    """Whether what is not listed has a code; else it is refused."""
    reading: Reading = PLAIN
    """How text is written."""

    @property
    def outside(self) -> dict[str, Any]:
        """What a category does with values that are not listed."""
        return {"other": self.other, "out_of_domain": "other" if self.other else "error"}


@dataclass(frozen=True, eq=False)
class Counts:
    """The distinct values of a column that are not missing, and how often each occurs."""

    name: str
    values: pa.Array
    counts: npt.NDArray[np.int64]
    missing: bool
    dtype: str

    @property
    def rows(self) -> int:
        """How many rows have a value."""
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class Distinct:
    """A column of the public table: its type, its values (`value`) with how often each occurs (`count`)."""

    kind: pa.DataType
    table: pa.Table
    order: tuple[Any, ...] | None = None
    """All categories in their order, where the table declares one."""
    is_mixed: bool = False
    """Whether each value has a type of its own; then they are counted as text."""


@dataclass(frozen=True, eq=False)
class _Partial:
    """A column as far as it was read."""

    kind: pa.DataType
    parts: tuple[pa.Table, ...]
    order: tuple[Any, ...] | None
    is_mixed: bool = False

    def and_then(self, later: "_Partial") -> "_Partial":
        kind = _common(self.kind, later.kind)
        parts = (*self.parts, *later.parts)
        if len(parts) >= _PARTS:
            parts = (merged(parts, kind),)
        is_mixed = self.is_mixed or later.is_mixed
        return _Partial(kind, parts, _joint_order(self.order, later.order), is_mixed)


def count_columns(source: Source, names: Sequence[str]) -> dict[str, Distinct]:
    """The distinct values of these columns."""
    read: dict[str, _Partial] = {}
    for batch in source.batches(list(names)):
        for name in names:
            part = _count(name, plain(batch.column(name)))
            read[name] = read[name].and_then(part) if name in read else part
    found = {name: Distinct(p.kind, merged(p.parts, p.kind), p.order, p.is_mixed) for name, p in read.items()}
    if not found or not all(pc.sum(column.table["count"]).as_py() for column in found.values()):
        raise SourceError(f"{source.name} is empty; give a table with at least one row")
    return found


def _count(name: str, array: pa.Array) -> _Partial:
    if (what := unreadable(array.type)) is not None:
        raise SchemaError(f"column '{name}' holds {what}, or leave it out")
    kind = array.type
    is_mixed = pa.types.is_union(kind)
    try:
        return replace(_counted(text(array) if is_mixed else array), is_mixed=is_mixed)
    except pa.ArrowException:
        raise SchemaError(f"column '{name}' holds {kind}; write it as text or numbers, or drop it") from None


def _counted(array: pa.Array) -> _Partial:
    kind = array.type
    order = None
    if pa.types.is_dictionary(kind):
        if kind.ordered:
            order = tuple(array.dictionary.to_pylist())
        kind = kind.value_type
    counted = array.cast(_countable(array.type)).value_counts()
    values = counted.field(0)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
        values = values.cast(_countable(values.type))
    part = pa.table({"value": values, "count": counted.field(1)})
    return _Partial(kind, (part,), order)


def _countable(kind: pa.DataType) -> pa.DataType:
    """The type that Arrow counts values of this type in."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _common(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The type of a column whose batches disagree: text unless one of them is all null, or both are numbers."""
    if left == right or pa.types.is_null(right):
        return left
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (left, right)):
        return pa.float64()
    return right if pa.types.is_null(left) else pa.string()


def _joint_order(left: tuple[Any, ...] | None, right: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """The longer of two orders, if it holds the other; else there is none."""
    if left is None or right is None:
        return None
    short, long = sorted((left, right), key=len)
    places = [long.index(value) for value in short if value in long]
    return long if len(places) == len(short) and places == sorted(places) else None


def merged(parts: Iterable[pa.Table], kind: pa.DataType) -> pa.Table:
    """Partial counts as one, each value once."""
    as_kind = pa.string() if is_string(kind) else _countable(kind)
    schema = pa.schema([("value", as_kind), ("count", pa.int64())])
    table = pa.concat_tables([part.cast(schema) for part in parts])
    if pa.types.is_null(kind):
        return pa.table({"value": pa.nulls(1), "count": [pc.sum(table["count"]).as_py()]})
    return table.group_by("value").aggregate([("count", "sum")]).rename_columns(["value", "count"])

"""From rows to integer codes: an encoder joins a schema to a source and turns each batch into code arrays.

The schema decides every code; the table decides none. A value that the schema refuses is an error, and for a
private table that error names the column and the remedy but neither the value nor how many there are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.errors import EncodeError, SourceError
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.columns import Boolean, Column
from openprior.schema.domain import Domain
from openprior.schema.levels import Level
from openprior.tables.fate_codes import FateCoder, coder_of
from openprior.tables.limit import RowLimit
from openprior.tables.lookup import Coder
from openprior.tables.source import Source, open_source
from openprior.tables.table import Table, dtype_for

__all__ = ["Encoder", "Table", "dtype_for", "encode_table"]

Codes = tuple[npt.NDArray[Any], ...]


class Encoder:
    """A schema over a source. The columns are checked at once; no row is read before the first batch."""

    def __init__(
        self,
        schema: Schema,
        source: Source,
        *,
        private: bool,
        show_private: bool = False,
        levels: bool = False,
    ) -> None:
        """With `levels`, codes of the hierarchies' levels follow those of the columns."""
        self.schema, self.source = schema, source
        self.private, self.show_private = private, show_private
        self.domain: Domain = schema.full_domain if levels else schema.domain
        self.levels: dict[str, Level] = schema.levels if levels else {}
        self._above = [
            (schema.domain.position(level.column), level.codes.astype(dtype_for(len(level.labels))))
            for level in self.levels.values()
        ]
        self._show = show_private or not private
        what = "private table" if private else "public table"
        if source.name != "table":
            what += f" '{source.name}'"
        self.what = what
        schema.check_columns(source.columns, what, list_columns=self._show, person_id=private)
        self._person_id = schema.person_id if private else None  # a public table needs no limit
        self.columns_read: tuple[str, ...] = schema.reads + (
            (self._person_id,) if self._person_id is not None else ()
        )
        self._coders = tuple(coder_of(column, schema.reading) for column in schema.columns)
        self._limit: RowLimit | None = None

    def encode(self, batch: pa.RecordBatch) -> Codes:
        """The codes of a batch, one array per attribute of `domain`. Pure, and safe to call from threads."""
        codes = [self._encode(coder, batch.column(coder.column.reads)) for coder in self._coders]
        return (*codes, *(above[codes[position]] for position, above in self._above))

    def _encode(self, coder: Coder | FateCoder, array: pa.Array) -> npt.NDArray[Any]:
        try:
            codes = coder(array)
        except (pa.ArrowException, IndexError):
            codes = None  # an index beyond a dictionary, for one, as in a damaged file
        if codes is None:
            # Outside the handler, because Arrow's words may quote a value.
            raise EncodeError(
                f"{self.what}: column '{coder.column.reads}' is stored in a way that cannot be read ({array.type}); "
                "store it as text, numbers or dates"
            )
        size = coder.column.size
        if codes.size and codes.max() >= size:
            first = int(np.argmax(codes >= size))
            assert isinstance(coder, Coder)  # fates refuse nothing
            reason = _refusal(coder, int(codes[first]), array[first] if self._show else None)
            raise EncodeError(f"{self.what}: {reason}")
        return codes.astype(dtype_for(size), copy=False)

    def one_pass(self) -> Callable[[pa.RecordBatch], Codes]:
        """`encode` for the batches of one pass, of which at most Δ rows of each person stay; threads may share it."""
        if self._person_id is None:
            return self.encode
        keep = self._row_limit(self._person_id).one_pass()

        def kept(batch: pa.RecordBatch) -> Codes:
            codes = self.encode(batch)
            stay = keep(batch, codes[: len(self._coders)])
            return codes if stay is None else tuple(column[stay] for column in codes)

        return kept

    def _row_limit(self, person_id: str) -> RowLimit:
        """Made when it is needed first, because that takes a pass or two."""
        if self._limit is None:
            self._limit = RowLimit(
                person_id,
                self.schema.max_rows_per_person,
                lambda: self.source.batches(self.columns_read),
                lambda: self.source.batches([person_id]),
                lambda batch: self.encode(batch)[: len(self._coders)],
                self.schema.reading.null_values,
            )
        return self._limit

    def batches(self) -> Iterator[Codes]:
        """One pass: read, encode, limit."""
        encode = self.one_pass()
        for batch in self.source.batches(self.columns_read):
            if batch.num_rows:
                yield encode(batch)


def encode_table(data: object, schema: Schema, *, private: bool = False, show_private: bool = False) -> Table:
    """The whole table in memory."""
    source = open_source(data, schema)
    encoder = Encoder(schema, source, private=private, show_private=show_private)
    parts: list[list[npt.NDArray[Any]]] = [[] for _ in schema.columns]
    for batch in encoder.batches():
        for part, codes in zip(parts, batch, strict=True):
            part.append(codes)
    if not parts[0]:
        raise SourceError(f"{encoder.what} is empty; give a table with at least one row")
    joined = []
    for part in parts:  # a column at a time, so that the codes are in memory once and not twice
        joined.append(np.concatenate(part))
        part.clear()
    return Table(schema.domain, tuple(joined))


def _refusal(coder: Coder, mark: int, example: Any) -> str:
    column = coder.column
    shown = "" if example is None else f" (for example {_shown(example)})"
    if mark == coder.refused_null:
        return f"column '{column.name}' has missing values; set missing = true in the schema"
    if isinstance(column, Boolean):
        no, yes = (f"'{label}'" for label in column.value_labels)
        remedy = 'make it kind = "categorical" with all its values, or set other = true and out_of_domain = "other"'
        return f"column '{column.name}' is boolean and has values other than {no} and {yes}{shown}; {remedy}"
    if not isinstance(column, Binned):
        remedy = 'list them or set other = true and out_of_domain = "other"'
        return f"column '{column.name}' has values outside its list{shown}; {remedy}"
    if mark == coder.unparsed:
        remedy = 'add them to missing_values, or set other = true and out_of_domain = "other"'
        return f"column '{column.name}' has values that are no {_noun(column)}{shown}; {remedy}"
    bounds = f"{'bins' if column.bins else 'range'} [{column.low}, {column.high}]"
    what = "bins" if column.bins else "range"
    remedy = f'widen the {what} or set out_of_domain = "open"'
    return f"column '{column.name}' has values outside its {bounds}{shown}; {remedy}"


def _noun(column: Column) -> str:
    return "dates or times" if column.kind == "datetime" else "numbers"


def _shown(scalar: pa.Scalar) -> str:
    try:
        return repr(scalar.as_py())
    except (ValueError, OverflowError):  # a moment that Python cannot hold
        return str(scalar.type)

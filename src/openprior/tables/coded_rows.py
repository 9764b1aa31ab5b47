"""Rows as codes, in the shape of a source: so that rows of which only codes are left can be compared with others."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.tables.encode import Encoder
from openprior.tables.table import Table

__all__ = ["CodedRows"]

Codes = Sequence[npt.NDArray[Any]]


class CodedRows:
    """Codes by column; every pass is begun anew."""

    name = "table"
    is_text = False

    def __init__(
        self, columns: tuple[str, ...], passes: Callable[[], Iterable[Codes]], rows: int | None = None
    ) -> None:
        self.columns, self._passes = columns, passes
        self.known_rows = rows

    @classmethod
    def of_table(cls, table: Table) -> "CodedRows":
        """The rows of a table."""
        return cls(table.domain.attributes, lambda: [table.columns], table.n)

    @classmethod
    def of_source(cls, encoder: Encoder) -> "CodedRows":
        """All rows of an encoder's source, those above a person's limit, too: the same table has the same rows."""
        names = encoder.schema.names
        source = encoder.source

        def rows() -> Iterator[Codes]:
            for batch in source.batches(list(encoder.schema.reads)):
                yield encoder.encode(batch)[: len(names)]

        return cls(names, rows, getattr(source, "known_rows", None))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """One pass, with these columns."""
        names = list(self.columns if columns is None else columns)
        places = [self.columns.index(name) for name in names]
        for codes in self._passes():
            yield pa.record_batch([pa.array(np.asarray(codes[place])) for place in places], names=names)

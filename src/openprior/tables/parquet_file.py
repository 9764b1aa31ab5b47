"""Parquet files: a row group at a time, each column in the type that it is stored in."""

import contextlib
import copy
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from openprior.errors import SourceError
from openprior.schema.columns import is_string
from openprior.tables.naming import gone, stem, told
from openprior.tables.source import BATCH_ROWS, Source, select

__all__ = ["ParquetFile"]

_PART_ROWS = 1 << 20


class ParquetFile:
    """One Parquet file, or some of its row groups, as a source."""

    is_text = False

    def __init__(self, path: Path) -> None:
        self.name, self._path, self.paths = stem(path), path, (path,)
        # Errors are raised outside the handlers: Arrow names the file, with the values in its folders' names.
        about, schema = None, None
        with contextlib.suppress(pa.ArrowException):
            about = pq.read_metadata(path)
            schema = about.schema.to_arrow_schema()
        if about is None or schema is None:
            raise self._damaged()
        self.known_rows: int | None = about.num_rows
        self.columns: tuple[str, ...] = tuple(schema.names)
        for name in self.columns:
            if self.columns.count(name) > 1:
                raise SourceError(f"{told(path)} has column '{name}' twice; rename one")
        self._texts = [field.name for field in schema if is_string(field.type)]
        self._groups: list[int] | None = None

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        chosen = select(self.columns, columns, self.name)
        texts = [name for name in self._texts if name in chosen]
        problem = None
        try:
            with pq.ParquetFile(
                self._path,
                read_dictionary=texts,
                pre_buffer=False,
                memory_map=True,
                coerce_int96_timestamp_unit="us",  # nanoseconds would turn the year 9999 into 1816
            ) as file:
                # One row group after another: a whole-file iterator may keep earlier groups buffered.
                for group in range(file.num_row_groups) if self._groups is None else self._groups:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=chosen):
                        yield batch.select(chosen)
        except FileNotFoundError:
            problem = SourceError(gone(self._path))
        except (pa.ArrowException, OSError):
            problem = self._damaged()
        if problem is not None:
            raise problem

    def split(self) -> list[Source]:
        """Parts of about a million rows; a row group stays whole."""
        rows = None
        with contextlib.suppress(pa.ArrowException, OSError), pq.ParquetFile(self._path) as file:
            rows = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        if rows is None:
            raise self._damaged()
        groups: list[list[int]] = []
        room = 0
        for group, n in enumerate(rows):
            if not groups or room < n:
                groups.append([])
                room = _PART_ROWS
            groups[-1].append(group)
            room -= n
        return [self._only(some) for some in groups]

    def _only(self, groups: list[int]) -> Source:
        part = copy.copy(self)
        part._groups, part.known_rows = groups, None
        return part

    def _damaged(self) -> SourceError:
        return SourceError(f"{told(self._path)} cannot be read as Parquet; it may be damaged, write it again")

"""Tables on Spark as sources: a DataFrame, or files that Spark's executors read.

The rows stay where they are: `rows` says which frame to run over, and how an executor gets the rows out of its Arrow
batches. Files are read by the executors with the same code as here, so that a CSV means the same; a Parquet file is
shared out by its groups of rows. `batches` brings rows to this process, a partition at a time.
"""

import copy
import io
import os
import pickle
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa

from openprior.counting.engine import Engine
from openprior.errors import SourceError
from openprior.schema.reading_rules import PLAIN, Reading
from openprior.spark.cluster import (
    Step,
    explain,
    items_frame,
    map_arrow,
    most_tasks,
    mute,
    open_session,
    spark_errors,
)
from openprior.spark.packing import Packing
from openprior.tables.files import open_split
from openprior.tables.source import Source, select

__all__ = ["Rows", "SparkFiles", "SparkSource", "read_path"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FIXED = {
    "boolean",
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "decimal",
    "date",
    "time",
    "timestamp",
}
_FIXED |= {"timestamp_ntz"}
_WHOLE = {"byte", "short", "integer", "long"}


@dataclass(frozen=True)
class Rows:
    """Rows on Spark."""

    frame: Any
    """The DataFrame to run over."""
    read: Step
    """From its Arrow batches to batches of the table; pickled to the executors."""
    is_bounded: bool
    """Whether a row of the frame has a bounded size."""


class SparkSource:
    """A Spark DataFrame. Every pass runs it anew, so it should give the same rows each time."""

    is_text = False

    def __init__(self, frame: Any, *, name: str = "table") -> None:
        if frame.isStreaming:
            raise SourceError("a streaming DataFrame has no end; give one that was read with spark.read")
        self.session, self.name, self._frame = frame.sparkSession, name, frame
        mute()
        self.columns: tuple[str, ...] = tuple(frame.columns)
        for column in self.columns:
            if self.columns.count(column) > 1:
                raise SourceError(f"{name} has column '{column}' twice; rename one")

    def engine(self) -> Engine:
        """Executors count it."""
        from openprior.spark.counter import SparkEngine

        return SparkEngine(self)

    def is_same_query(self, other: object) -> bool:
        """Whether another table is the same frame, or one that Spark says gives the same; runs nothing."""
        if not isinstance(other, SparkSource):
            return False
        if other._frame is self._frame:
            return True
        try:
            return bool(self._frame.sameSemantics(other._frame))
        except spark_errors():
            return False  # frames of two sessions, say, cannot be compared

    def rows(
        self, columns: Sequence[str] | None = None, spans: Mapping[str, tuple[int, int]] | None = None
    ) -> Rows:
        """The rows with these columns in this order; numbers beyond a column's span may come as any other such."""
        chosen = select(self.columns, columns, self.name)
        # By position: Spark takes "a" and "A" for one name, and "a.b" for a field of a.
        places = {c: f"c{self.columns.index(c)}" for c in chosen}
        kinds = {c: self._frame.schema[self.columns.index(c)].dataType.typeName() for c in chosen}
        packing = Packing(chosen, {c: span for c, span in (spans or {}).items() if kinds.get(c) in _WHOLE})
        frame = self._frame.toDF(*(f"c{i}" for i in range(len(self.columns)))).selectExpr(
            *packing.expressions(places)
        )
        return Rows(frame, packing.unpack, set(kinds.values()) <= _FIXED)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        rows = self.rows(columns)
        problem = ""
        try:
            for (packed,) in map_arrow(
                rows.frame, partial(_packed, rows.read), "batch binary"
            ).toLocalIterator():
                yield from pa.ipc.open_stream(bytes(packed))
        except spark_errors() as error:
            problem = explain(error)
        if problem:
            raise SourceError(problem)


class SparkFiles:
    """Files that every executor sees under the same path."""

    def __init__(self, path: str, master: str | None = None, reading: Reading = PLAIN) -> None:
        self._local, self._parts = open_split(os.path.abspath(path), reading)  # executors run elsewhere
        self.name, self.is_text = self._local.name, self._local.is_text
        self.paths: tuple[Path, ...] = getattr(self._local, "paths", ())
        self.part: str | None = getattr(self._local, "part", None)
        self.session = open_session(master)

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the files."""
        return self._local.columns

    def expecting(self, columns: Sequence[str]) -> "SparkFiles":
        """The same table with the columns of a schema, where they are not in the files; reads nothing."""
        sources: list[Any] = [self._local, *self._parts]
        other = copy.copy(self)
        other._local, *other._parts = (
            some.expecting(columns) if hasattr(type(some), "expecting") else some for some in sources
        )
        return other

    def engine(self) -> Engine:
        """Executors count it."""
        from openprior.spark.counter import SparkEngine

        return SparkEngine(self)

    def rows(
        self, columns: Sequence[str] | None = None, spans: Mapping[str, tuple[int, int]] | None = None
    ) -> Rows:
        """The rows with these columns in this order, as they are."""
        chosen = select(self.columns, columns, self.name)
        frame = items_frame(self.session, map(pickle.dumps, self._parts), most_tasks(self.session))
        return Rows(frame, partial(_read_parts, chosen), True)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        return self._local.batches(columns)


def read_path(path: str, master: str | None = None, reading: Reading = PLAIN) -> Source:
    """A file or a folder of files, for Spark to read as the schema's `reading` says; a URL such as hdfs://… is
    Parquet."""
    if not _URL.match(path):
        return SparkFiles(path, master, reading)
    session = open_session(master)
    problem = ""
    try:
        return SparkSource(_parquet(session, path), name=PurePosixPath(path).stem)
    except spark_errors():
        problem = (
            f"Spark cannot read {path} as Parquet; check the URL, or read it yourself and give the DataFrame"
        )
    raise SourceError(problem)


def _parquet(session: Any, path: str) -> Any:
    """The frame of Parquet files. Their folders' keys are texts, as they are here: Spark would guess types, and turn
    the key 03 into the number 3."""
    guess = "spark.sql.sources.partitionColumnTypeInference.enabled"
    before = session.conf.get(guess)
    session.conf.set(guess, "false")
    try:
        return session.read.parquet(path)
    finally:
        session.conf.set(guess, before)


# On the executors.


def _read_parts(columns: list[str], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for item in batch.column("item"):
            part: Source = pickle.loads(item.as_py())
            yield from part.batches(columns)


def _packed(read: Step, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in read(batches):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue()], pa.binary())], names=["batch"])

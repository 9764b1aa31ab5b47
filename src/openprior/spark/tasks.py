"""What runs on Spark's executors: encode, limit, count, add. The encoder and the kernel are those of this machine.

A partition's counts are a flat vector: the number of rows, then the tables of the plan. It travels in rows of a few
hundred cells (`chunk` says which; rows of zeros stay at home), so that no row and no batch of them is large. `lane`
says which vectors are added next. A refusal travels as data too, in chunk −1: raised on an executor it would be tried
again and printed with its surroundings. Other errors keep only their class, as their words may quote a row.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from openprior import errors
from openprior.counting.local import Tally
from openprior.counting.passes import Plan
from openprior.errors import OpenPriorError, SourceError
from openprior.schema.base import Schema
from openprior.spark.cluster import Step
from openprior.tables.encode import Encoder, dtype_for
from openprior.tables.persons import person_names

__all__ = [
    "LIMITED",
    "PACKED",
    "PARTIAL",
    "Job",
    "Vectors",
    "add",
    "add_last",
    "count",
    "count_limited",
    "encode",
    "refusal",
    "version",
]

CELLS = 256
"""Cells of a row: two kilobytes."""
PARTIAL = "lane int, chunk int, table binary"
LIMITED = "person binary, codes binary"
"""Persons are bytes, because Spark may be told to compare texts by other rules than ours."""
PACKED = "chunks binary, tables binary"

_BLOCK = 2048  # rows that go to the driver together: four megabytes

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Job:
    """All that a task needs to do as the driver would; it is pickled, and holds no row."""

    schema: Schema
    name: str
    columns: tuple[str, ...]
    private: bool
    show_private: bool
    levels: bool
    read: Step
    plan: Plan
    lanes: int
    version: str

    is_text = False

    def batches(self, columns: object = None) -> Batches:
        """None: rows come from `read`."""
        return iter(())

    def encoder(self) -> Encoder:
        """The driver's encoder, once more."""
        if self.version != version():
            raise SourceError(
                f"Spark's executors have openprior {version()} and the driver has {self.version}; install one version"
            )
        return Encoder(
            self.schema, self, private=self.private, show_private=self.show_private, levels=self.levels
        )

    @property
    def layout(self) -> np.dtype[Any]:
        """A row's codes, one after the other in the smallest types."""
        return np.dtype([(f"c{i}", dtype_for(size)) for i, size in enumerate(self.plan.cells.domain.shape)])


class Vectors:
    """Sums of flat vectors, one a lane, of which only the chunks that came are held."""

    def __init__(self, cells: int) -> None:
        self.chunks = -(-cells // CELLS)
        # Fresh zeros take no memory until they are touched.
        self._sums: dict[int, NDArray[np.int64]] = {}
        self._seen: dict[int, NDArray[np.bool_]] = {}

    def add(self, lane: int, chunks: NDArray[Any], tables: NDArray[np.int64]) -> None:
        """Add some chunks [k, CELLS], each of them once."""
        if lane not in self._sums:
            self._sums[lane] = np.zeros((self.chunks, CELLS), np.int64)
            self._seen[lane] = np.zeros(self.chunks, np.bool_)
        self._sums[lane][chunks] += tables
        self._seen[lane][chunks] = True

    def flat(self) -> NDArray[np.int64]:
        """The sum of all lanes."""
        total = np.zeros((self.chunks, CELLS), np.int64)
        for lane, sums in self._sums.items():
            seen = self._seen[lane]
            total[seen] += sums[seen]
        return total.ravel()

    def parts(self, size: int) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """Lane, chunks and tables of what came, so many at a time."""
        for lane, sums in self._sums.items():
            places = np.flatnonzero(self._seen[lane])
            for start in range(0, len(places), size):
                some = places[start : start + size]
                yield lane, some, sums[some]


def count(job: Job, batches: Batches) -> Batches:
    """Encode and count one partition."""

    def work() -> Tally:
        encoder, tally = job.encoder(), Tally(job.plan)
        for batch in job.read(batches):
            if batch.num_rows:
                tally.add(encoder.encode(batch))
        return tally

    yield from _counted(job, work)


def encode(job: Job, batches: Batches) -> Batches:
    """The rows of one partition as (person, codes); a refusal has no person."""
    layout, person_id = job.layout, job.schema.person_id
    assert person_id is not None
    rows = _Guarded(lambda: _encoded(job, person_id, batches))
    for names, columns in rows:
        packed = np.empty(len(names), layout)
        for i, column in enumerate(columns):
            packed[f"c{i}"] = column
        yield pa.RecordBatch.from_arrays([names, _binary(_bytes(packed))], names=["person", "codes"])
    if rows.refusal:
        nobody = pa.nulls(1, pa.binary())
        yield pa.RecordBatch.from_arrays([nobody, pa.array([rows.refusal])], names=["person", "codes"])


def _encoded(job: Job, person_id: str, batches: Batches) -> Iterator[tuple[pa.Array, Any]]:
    encoder = job.encoder()
    for batch in job.read(batches):
        if batch.num_rows:
            names = person_names(batch.column(person_id), person_id)
            yield names.cast(pa.binary()), encoder.encode(batch)


def count_limited(job: Job, batches: Batches) -> Batches:
    """Count the first Δ rows of each person; the partition has all rows of its persons, one person after the other."""

    def work() -> Tally:
        tally, layout = Tally(job.plan), job.layout
        ranks = _Ranks()
        for batch in batches:
            person, codes = batch.column("person"), batch.column("codes")
            if person.null_count:
                raise refusal(codes.filter(person.is_null())[0].as_py())
            keep = ranks(person) < job.schema.max_rows_per_person
            rows = _fixed(codes, layout.itemsize).view(layout)[:, 0][keep]
            if len(rows):
                tally.add([np.ascontiguousarray(rows[name]) for name in layout.names or ()])
        return tally

    yield from _counted(job, work)


class _Ranks:
    """A row's number among the rows of its person, in batches where persons come one after the other."""

    def __init__(self) -> None:
        self._last: Any = None
        self._rows = 0

    def __call__(self, person: pa.Array) -> NDArray[np.int64]:
        n = len(person)
        if not n:
            return np.zeros(0, np.int64)
        new = np.ones(n, np.bool_)
        new[1:] = pc.not_equal(person[1:], person[:-1]).to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(new)
        rank = np.arange(n) - np.repeat(starts, np.diff(starts, append=n))
        if person[0] == self._last:
            rank[: starts[1] if len(starts) > 1 else n] += self._rows
        self._last, self._rows = person[n - 1], int(rank[-1]) + 1
        return rank


def _counted(job: Job, work: Callable[[], Tally]) -> Batches:
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    lane = context.partitionId() % job.lanes
    tallies = _Guarded(lambda: iter([work()]))
    for tally in tallies:
        flat = np.zeros(-(-(1 + len(tally.tables)) // CELLS) * CELLS, np.int64)
        flat[0], flat[1 : 1 + len(tally.tables)] = tally.rows, tally.tables
        table = flat.reshape(-1, CELLS)
        chunks = np.flatnonzero(table.any(axis=1))
        for start in range(0, len(chunks), _BLOCK):
            some = chunks[start : start + _BLOCK]
            yield _partial(lane, some, table[some])
    if tallies.refusal:
        yield _refused(tallies.refusal)


def add(cells: int, lanes: int, batches: Batches) -> Batches:
    """Add the vectors of each lane; the sums go to one of so many lanes next."""
    sums = Vectors(cells)
    for refused in _sum(sums, batches):
        yield _refused(refused)
    for lane, chunks, tables in sums.parts(_BLOCK):
        yield _partial(lane % lanes, chunks, tables)


def add_last(cells: int, batches: Batches) -> Batches:
    """Add, and pack what goes to the driver; a refusal has no chunks."""
    sums = Vectors(cells)
    for refused in _sum(sums, batches):
        yield _row(b"", refused)
    for _, chunks, tables in sums.parts(_BLOCK):
        yield _row(chunks.astype(np.int32).tobytes(), tables.tobytes())


def _sum(sums: Vectors, batches: Batches) -> set[bytes]:
    refused: set[bytes] = set()
    for batch in batches:
        lane, chunk = batch.column("lane").to_numpy(), batch.column("chunk").to_numpy()
        whole = chunk >= 0
        if not whole.all():
            refused |= set(batch.column("table").filter(pa.array(~whole)).to_pylist())
        lane, chunk = lane[whole], chunk[whole]
        tables = _fixed(batch.column("table").filter(pa.array(whole)), CELLS * 8).view(np.int64)
        # Rows of one vector come in order, so each stretch that rises has every chunk once.
        cuts = np.flatnonzero((np.diff(chunk) <= 0) | (np.diff(lane) != 0)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(chunk)], strict=True):
            if stop > start:
                sums.add(int(lane[start]), chunk[start:stop], tables[start:stop])
    return refused


# Refusals.


class _Guarded:
    """A generator's items up to its end or its refusal; any other error is raised anew, without its words."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make
        self.refusal = b""

    def __iter__(self) -> Iterator[Any]:
        kind = ""
        try:
            yield from self._make()
        except OpenPriorError as error:
            self.refusal = json.dumps([type(error).__name__, str(error)]).encode()
        except Exception as error:  # noqa: BLE001  (whatever it is, its words may quote a row)
            kind = type(error).__name__
        if kind:
            raise RuntimeError(f"openprior: {kind} on an executor")


def refusal(packed: bytes) -> OpenPriorError:
    """The error that an executor met."""
    kind, message = json.loads(packed)
    made: OpenPriorError = getattr(errors, kind, SourceError)(message)
    return made


def version() -> str:
    """The version of openprior that runs here."""
    return str(sys.modules["openprior"].__version__)


# Arrow.


def _partial(lane: int, chunks: NDArray[Any], tables: NDArray[np.int64]) -> pa.RecordBatch:
    lanes = np.full(len(chunks), lane, np.int32)
    arrays = [pa.array(lanes), pa.array(chunks.astype(np.int32)), _binary(_bytes(tables))]
    return pa.RecordBatch.from_arrays(arrays, names=["lane", "chunk", "table"])


def _refused(packed: bytes) -> pa.RecordBatch:
    arrays = [pa.array([0], pa.int32()), pa.array([-1], pa.int32()), pa.array([packed], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["lane", "chunk", "table"])


def _row(chunks: bytes, tables: bytes) -> pa.RecordBatch:
    arrays = [pa.array([chunks], pa.binary()), pa.array([tables], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["chunks", "tables"])


def _bytes(rows: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), -1)


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    """Rows of bytes [n, width] as a binary array, without a copy."""
    n, width = rows.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(rows)])


def _fixed(array: pa.Array, width: int) -> NDArray[np.uint8]:
    """A binary array whose values all have this width, as rows of bytes [n, width]."""
    fixed = array.cast(pa.binary(width))
    data = np.frombuffer(fixed.buffers()[1] or b"", np.uint8)
    return data[fixed.offset * width : (fixed.offset + len(fixed)) * width].reshape(len(fixed), width)

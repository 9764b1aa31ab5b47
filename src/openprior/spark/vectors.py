"""Flat vectors of counts: how they travel between tasks, and how they are added.

A partition's counts are one vector: the number of rows, then the tables of the plan. It travels in rows of a few
hundred cells (`chunk` says which; rows of zeros stay at home), so that no row and no batch of them is large. `lane`
says which vectors are added next. A refusal (refusals.py) travels in chunk −1.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from openprior.spark.binary import from_binary, to_binary

__all__ = ["PACKED", "PARTIAL", "Batches", "Vectors", "add", "add_last", "refused_batch", "vector_batches"]

CELLS = 256
"""Cells of a row: two kilobytes."""
PARTIAL = "lane int, chunk int, table binary"
PACKED = "chunks binary, tables binary"

_BLOCK = 2048
"""Rows that travel together: four megabytes."""

Batches = Iterator[pa.RecordBatch]


class Vectors:
    """Sums of flat vectors, one per lane, of which only the chunks that came are held."""

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


def vector_batches(lane: int, rows: int, tables: NDArray[np.int64]) -> Batches:
    """A partition's number of rows and its tables, on their way to a lane."""
    flat = np.zeros(-(-(1 + len(tables)) // CELLS) * CELLS, np.int64)
    flat[0], flat[1 : 1 + len(tables)] = rows, tables
    by_chunk = flat.reshape(-1, CELLS)
    chunks = np.flatnonzero(by_chunk.any(axis=1))
    for start in range(0, len(chunks), _BLOCK):
        some = chunks[start : start + _BLOCK]
        yield _partial(lane, some, by_chunk[some])


def add(cells: int, lanes: int, batches: Batches) -> Batches:
    """Add the vectors of each lane; the sums go to one of so many lanes next."""
    sums = Vectors(cells)
    for refused in _sum(sums, batches):
        yield refused_batch(refused)
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
        tables = from_binary(batch.column("table").filter(pa.array(whole)), CELLS * 8).view(np.int64)
        # Rows of one vector come in order, so each stretch that rises has every chunk once.
        cuts = np.flatnonzero((np.diff(chunk) <= 0) | (np.diff(lane) != 0)) + 1
        for start, stop in zip([0, *cuts], [*cuts, len(chunk)], strict=True):
            if stop > start:
                sums.add(int(lane[start]), chunk[start:stop], tables[start:stop])
    return refused


def _partial(lane: int, chunks: NDArray[Any], tables: NDArray[np.int64]) -> pa.RecordBatch:
    lanes = np.full(len(chunks), lane, np.int32)
    arrays = [pa.array(lanes), pa.array(chunks.astype(np.int32)), to_binary(tables)]
    return pa.RecordBatch.from_arrays(arrays, names=["lane", "chunk", "table"])


def refused_batch(packed: bytes) -> pa.RecordBatch:
    """A refusal in the place of a vector."""
    arrays = [pa.array([0], pa.int32()), pa.array([-1], pa.int32()), pa.array([packed], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["lane", "chunk", "table"])


def _row(chunks: bytes, tables: bytes) -> pa.RecordBatch:
    arrays = [pa.array([chunks], pa.binary()), pa.array([tables], pa.binary())]
    return pa.RecordBatch.from_arrays(arrays, names=["chunks", "tables"])

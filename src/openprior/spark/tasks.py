"""What runs on Spark's executors: encode, limit, count. The encoder and the kernel are those of this machine.

A task gives back its partition's counts as a vector (vectors.py), or the refusal that it met (refusals.py).
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from openprior.counting.local import Tally
from openprior.counting.passes import Plan
from openprior.errors import SourceError
from openprior.schema.base import Schema
from openprior.spark.binary import from_binary, to_binary
from openprior.spark.cluster import Step
from openprior.spark.refusals import Guarded, refusal
from openprior.spark.vectors import Batches, refused_batch, vector_batches
from openprior.tables.encode import Encoder, dtype_for
from openprior.tables.identity import owners
from openprior.tables.limit import mixes

__all__ = ["LIMITED", "Job", "count", "count_limited", "encode", "version"]

LIMITED = "person binary, mix long, codes binary"
"""Persons are bytes, because Spark may be told to compare texts by other rules than ours."""


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
    """The rows of one partition as (person, mix, codes); a refusal has no person."""
    layout, person_id = job.layout, job.schema.person_id
    assert person_id is not None
    rows = Guarded(lambda: _encoded(job, person_id, batches))
    for names, mix, columns in rows:
        packed = np.empty(len(names), layout)
        for i, column in enumerate(columns):
            packed[f"c{i}"] = column
        yield pa.RecordBatch.from_arrays([names, mix, to_binary(packed)], names=["person", "mix", "codes"])
    if rows.refusal:
        nobody = [pa.nulls(1, pa.binary()), pa.nulls(1, pa.int64()), pa.array([rows.refusal])]
        yield pa.RecordBatch.from_arrays(nobody, names=["person", "mix", "codes"])


def _encoded(job: Job, person_id: str, batches: Batches) -> Iterator[tuple[pa.Array, pa.Array, Any]]:
    encoder, gaps = job.encoder(), job.schema.reading.null_values
    for batch in job.read(batches):
        if batch.num_rows:
            found, codes = owners(batch.column(person_id), person_id, gaps), encoder.encode(batch)
            mix = mixes(found.hashes()[found.owner], codes[: len(job.schema.columns)])
            # Spark orders signed numbers: the halves change places, so that the order is that of unsigned ones.
            signed = (mix ^ np.uint64(1 << 63)).view(np.int64)
            yield found.names().cast(pa.binary()), pa.array(signed), codes


def count_limited(job: Job, batches: Batches) -> Batches:
    """Count the first Δ rows of each person; the partition has all rows of its persons, one person after the other, in
    the order of their mix."""

    def work() -> Tally:
        tally, layout = Tally(job.plan), job.layout
        ranks = _Ranks()
        for batch in batches:
            person, codes = batch.column("person"), batch.column("codes")
            if person.null_count:
                raise refusal(codes.filter(person.is_null())[0].as_py())
            keep = ranks(person) < job.schema.max_rows_per_person
            rows = from_binary(codes, layout.itemsize).view(layout)[:, 0][keep]
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
    tallies = Guarded(lambda: iter([work()]))
    for tally in tallies:
        yield from vector_batches(lane, tally.rows, tally.tables)
    if tallies.refusal:
        yield refused_batch(tallies.refusal)


def version() -> str:
    """The version of openprior that runs here."""
    return str(sys.modules["openprior"].__version__)

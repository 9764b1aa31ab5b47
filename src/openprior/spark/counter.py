"""Counting on Spark: executors encode and count their rows with the same kernel, and add their tables up in a tree.

Every task counts its rows into tables of its own. The tables are added on the executors, about eight at a time, and
the driver adds the last few as they come, one partition after another: its memory is that of the tables, however many
rows, tasks and executors there are. A task that dies is run again and gives the same table.

The limit of Δ rows per person takes one shuffle, which brings a person's rows together. They are put in the order of
their mix, a hash of the person and the codes, and the first Δ count: the same rows as on one machine (tables/limit.py),
wherever they lay and however often a task runs. Which rows of a person are kept depends on that person's rows only, and
there are at most Δ of them: so one person moves at most Δ counted rows, which is what every sensitivity assumes.

Executors only count and post-process. All noise is drawn on the driver, by the curator.
"""

from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.local import MANY, Tally
from openprior.counting.passes import Plan
from openprior.errors import SourceError
from openprior.spark import tasks
from openprior.spark.by_group import SparkExecutor
from openprior.spark.cluster import explain, large_batches, map_arrow, most_tasks, spark_errors
from openprior.spark.packing import spans
from openprior.spark.reading import Rows, SparkFiles, SparkSource
from openprior.spark.refusals import refusal
from openprior.spark.vectors import PACKED, PARTIAL, Vectors, add, add_last
from openprior.tables.encode import Encoder

__all__ = ["SparkEngine"]

A = TypeVar("A")
B = TypeVar("B")

_FAN = 8
"""Tables that are added into one at each level of the tree."""
_FEW = 4
"""Tables that are left for the driver to add."""
_PART_CELLS = 1 << 22
"""Cells that a task of the tree adds: 32 MB."""
_PARTS = 512


class SparkEngine:
    """Counts where the rows are."""

    def __init__(self, source: SparkSource | SparkFiles) -> None:
        self._source = source
        self.executor = SparkExecutor(source.session)

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        """The flat counts of all cells over the encoder's source, at most Δ rows per person, and the number of rows."""
        session = self._source.session
        most = most_tasks(session)
        widths = _widths(most)
        # Where a refused value is quoted, it must arrive as it was.
        is_quoted = encoder.show_private or not encoder.private
        rows = self._source.rows(encoder.columns_read, {} if is_quoted else spans(encoder.schema))
        tally = Tally(Plan(cells, MANY))
        job = _job(encoder, rows, tally.plan, widths[0])
        is_limited = encoder.private and encoder.schema.person_id is not None
        vectors = Vectors(1 + len(tally.tables))
        refused: list[bytes] = []
        problem = ""
        try:
            with large_batches(session, bounded=rows.is_bounded and not is_limited):
                partials = _limited(job, rows, most) if is_limited else _counted(job, rows, most)
                for chunks, tables in _added(partials, 1 + len(tally.tables), widths).toLocalIterator():
                    if chunks:
                        some = np.frombuffer(chunks, np.int32)
                        vectors.add(0, some, np.frombuffer(tables, np.int64).reshape(len(some), -1))
                    else:
                        refused.append(bytes(tables))
        except spark_errors() as error:
            problem = explain(error)
        if problem:
            raise SourceError(problem)
        if refused:
            raise refusal(min(refused))
        flat = vectors.flat()
        tally.tables = flat[1 : 1 + len(tally.tables)]
        return tally.counts(), int(flat[0])


def _job(encoder: Encoder, rows: Rows, plan: Plan, lanes: int) -> tasks.Job:
    return tasks.Job(
        schema=encoder.schema,
        name=encoder.source.name,
        columns=encoder.columns_read,
        private=encoder.private,
        show_private=encoder.show_private,
        levels=bool(encoder.levels),
        read=rows.read,
        plan=plan,
        lanes=lanes,
        version=tasks.version(),
    )


def _widths(most: int) -> list[int]:
    """How many lanes there are at each level of the tree."""
    widths = [-(-most // _FAN)]
    while widths[-1] > _FEW:
        widths.append(-(-widths[-1] // _FAN))
    return widths


def _counted(job: tasks.Job, rows: Rows, most: int) -> Any:
    return map_arrow(rows.frame.coalesce(most), partial(tasks.count, job), PARTIAL)


def _limited(job: tasks.Job, rows: Rows, most: int) -> Any:
    encoded = map_arrow(rows.frame, partial(tasks.encode, job), tasks.LIMITED)
    together = encoded.repartition("person")
    ordered = together.sortWithinPartitions("person", "mix", "codes").select("person", "codes")
    return map_arrow(ordered.coalesce(most), partial(tasks.count_limited, job), PARTIAL)


def _added(partials: Any, cells: int, widths: list[int]) -> Any:
    for width, after in zip(widths, [*widths[1:], 0], strict=True):
        parts = min(max(width, -(-width * cells // _PART_CELLS)), _PARTS)
        gathered = partials.repartition(parts, "lane", "chunk")
        if after:
            partials = map_arrow(gathered, partial(add, cells, after), PARTIAL)
    return map_arrow(gathered, partial(add_last, cells), PACKED)

"""Counting on this machine: all marginals of a request in one pass, on every core.

`count_batches` streams: each worker takes the next batch, encodes it and counts it into tables of its own (a `Tally`),
so that a folder larger than memory costs one pass and the tables. `RowCounter` keeps the codes of an in-memory
table ready and counts them under changing weights, over all rows or some of them.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.passes import Bundle, Plan
from openprior.questions.workload import Marginal
from openprior.tables.encode import Table

__all__ = ["MANY", "RowCounter", "Tally", "count_batches", "count_table", "workers"]

Columns = Sequence[NDArray[np.unsignedinteger]]
Floats = NDArray[np.float64]

_BLOCK = 1 << 14
"""Rows fused at a time: fifteen columns of two bytes stay in the second-level cache."""


MANY = 10_000_000
"""Rows to plan for when the number of rows is not known before they are read."""


def count_table(table: Table, marginals: Iterable[Marginal]) -> dict[Marginal, NDArray[np.int64]]:
    """Counts of these marginals; a dict of flat C-order vectors."""
    cells = Cells(table.domain, marginals)
    pieces = [tuple(c[i : i + (1 << 18)] for c in table.columns) for i in range(0, max(table.n, 1), 1 << 18)]
    counts, _ = count_batches(pieces, _same, cells, rows=table.n)
    return {m: v.astype(np.int64, copy=False) for m, v in cells.split(counts).items()}


def _same(columns: Columns) -> Columns:
    return columns


class Tally:
    """The tables of a plan while one worker counts into them, one after the other in a flat vector."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ends = np.cumsum([b.table_cells for b in self.plan.bundles]).tolist()
        self.tables: NDArray[np.int64] = np.zeros(self.ends[-1], np.int64)
        self.rows = 0

    def add(self, columns: Columns) -> None:
        """Count a batch of codes."""
        rows = len(columns[0])
        ones = np.ones(min(rows, _BLOCK), np.int64)
        for start in range(0, rows, _BLOCK):
            block = self.plan.fuse(columns, start, min(start + _BLOCK, rows))
            for bundle, end in zip(self.plan.bundles, self.ends, strict=True):
                _tally(bundle, block, ones, self.tables[end - bundle.table_cells : end])
        self.rows += rows

    def counts(self) -> NDArray[np.int64]:
        """The flat counts of all cells."""
        out = np.zeros(len(self.plan.cells), np.int64)
        for bundle, end in zip(self.plan.bundles, self.ends, strict=True):
            scratch = np.zeros(bundle.scratch_cells, np.int64)
            scratch[: bundle.table_cells] = self.tables[end - bundle.table_cells : end]
            _distribute(bundle, scratch, out)
        return out


def count_batches(
    batches: Iterable[Any], encode: Callable[[Any], Columns], cells: Cells, *, rows: int | None = None
) -> tuple[NDArray[np.int64], int]:
    """The flat counts of all cells, and the number of rows; `encode` runs in the workers and must be pure."""
    plan = Plan(cells, MANY if rows is None else rows)
    source, lock = iter(batches), threading.Lock()
    stopped = threading.Event()

    def work() -> Tally:
        tally = Tally(plan)
        try:
            while not stopped.is_set():
                with lock:
                    batch = next(source, None)
                if batch is None:
                    break
                tally.add(encode(batch))
        except BaseException:
            stopped.set()
            raise
        return tally

    threads = workers() if rows is None or rows > 1 << 16 else 1
    with ThreadPoolExecutor(threads) as pool:
        first, *others = [f.result() for f in [pool.submit(work) for _ in range(threads)]]
    for other in others:
        first.tables += other.tables
        first.rows += other.rows
    return first.counts(), first.rows


def _tally(b: Bundle, codes: NDArray[Any], weights: NDArray[Any], tables: NDArray[Any]) -> None:
    from openprior.counting.tally import tally

    tally(codes, b.prefix, b.strides, b.lasts, b.sizes, b.starts, weights, tables)


def _distribute(b: Bundle, scratch: NDArray[Any], out: NDArray[Any]) -> None:
    from openprior.counting.tally import distribute

    distribute(b.steps, b.shapes, b.sum_strides, scratch, out)


class RowCounter:
    """Weighted counts of one table's rows, again and again: fused once, counted with every core.

    Memory: the fused codes (a byte or two per row and group) and one bundle's tables per thread; nothing of size
    rows × marginals is stored.
    """

    def __init__(self, table: Table, wanted: Iterable[Marginal] | Plan) -> None:
        """Of these marginals; or by a plan that was made for a table like this one."""
        self.plan = wanted if isinstance(wanted, Plan) else Plan(Cells(table.domain, wanted), table.n)
        self.cells = self.plan.cells
        self._codes = self.plan.fuse(table.columns, 0, table.n)

    def answers(self, weights: Floats, rows: NDArray[np.intp] | None = None) -> Floats:
        """The flat answers when row r (or row rows[r]) has weight weights[r]."""
        codes = self._codes if rows is None else np.ascontiguousarray(self._codes[:, rows])
        out = np.zeros(len(self.cells), np.float64)

        def count(bundle: Bundle, scratch: Floats) -> None:
            scratch[: bundle.table_cells] = 0.0
            _tally(bundle, codes, weights, scratch)
            _distribute(bundle, scratch, out)

        self._for_each_bundle(count, codes.shape[1])
        return out

    def moments(self, weights: Floats, rows: NDArray[np.integer[Any]]) -> tuple[Floats, Floats]:
        """The sums and the sums of squares of several answers, of which the i-th gives row rows[i, r] the weight
        weights[i, r]; in memory as for one, and the codes of these rows."""
        from openprior.counting.tally import moments

        codes = np.empty((len(rows), len(self._codes), rows.shape[1]), self._codes.dtype)

        def gather(i: int) -> None:
            codes[i] = np.take(self._codes, rows[i], axis=1)

        with ThreadPoolExecutor(workers()) as pool:
            list(pool.map(gather, range(len(rows))))
        out, sums, squares = (np.zeros(len(self.cells), np.float64) for _ in range(3))

        def count(b: Bundle, scratch: Floats) -> None:
            copied = b.copies
            moments(
                codes, b.prefix, b.strides, b.lasts, b.sizes, b.starts, b.table_cells, b.steps[copied],
                b.steps[~copied], b.shapes, b.sum_strides, weights, scratch, out, sums, squares,
            )  # fmt: skip

        self._for_each_bundle(count, rows.size)
        return sums, squares

    def _for_each_bundle(self, count: Callable[[Bundle, Floats], None], rows: int) -> None:
        """Each with room for its tables, on every core if that is worth it; they write to cells of their own."""
        bundles, lock = iter(self.plan.bundles), threading.Lock()
        largest = max(b.scratch_cells for b in self.plan.bundles)

        def work() -> None:
            space = np.empty(largest, np.float64)
            while True:
                with lock:
                    bundle = next(bundles, None)
                if bundle is None:
                    return
                count(bundle, space[: bundle.scratch_cells])

        if workers() == 1 or rows * len(self.plan.bundles) < 1 << 16:
            work()
            return
        with ThreadPoolExecutor(workers()) as pool:
            for future in [pool.submit(work) for _ in range(workers())]:
                future.result()

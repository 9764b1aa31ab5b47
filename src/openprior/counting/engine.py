"""Where counting happens: on this machine, or where the source's rows are.

An engine encodes and counts a source in one pass. Where it counts there is also an executor, which runs a pure function
on every item of a list, side by side, and holds no rows. A source that lives on a cluster brings its engine; any other
source is counted here.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.local import count_batches
from openprior.counting.whole_rows import whole_rows
from openprior.progress import Phase, here
from openprior.tables.encode import Encoder
from openprior.tables.source import Source
from openprior.tables.table import Table

__all__ = ["BringsEngine", "Engine", "Executor", "GivesRows", "Threads", "engine_of"]

A = TypeVar("A")
B = TypeVar("B")


class Executor(Protocol):
    """Who runs what can be run apart; it holds nothing private."""

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The function's value for each item, in order. It may be sent elsewhere, with the items: function and items
        hold only what is public or was released. Where progress can be seen, an item is a step of the phase that is
        open where this is called."""
        ...


class Engine(Protocol):
    """Who counts."""

    @property
    def executor(self) -> Executor:
        """Who runs what can be run apart, near by."""
        ...

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        """The flat counts of all cells over the encoder's source, at most Δ rows per person, and the number of rows."""
        ...


@runtime_checkable
class GivesRows(Protocol):
    """An engine that can also bring whole rows together; one for tables larger than a machine cannot."""

    def whole_rows(self, encoder: Encoder) -> tuple[Table, NDArray[np.int64]]:
        """The distinct rows, at most Δ rows per person, and how often each occurs."""
        ...


_PORTION = 16_384
"""Rows that progress tells at once."""


class Threads:
    """Threads of this process, one per core: functions should release the GIL where they work."""

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Side by side, in order."""
        work, values = here(), []
        with ThreadPoolExecutor(workers()) as pool:
            for value in pool.map(function, items):
                values.append(value)
                work.advance()
        return values


class _Local:
    """This machine: every core counts."""

    executor = Threads()

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        encode = encoder.one_pass()
        return count_batches(_told(encoder.source.batches(encoder.columns_read), here()), encode, cells)

    def whole_rows(self, encoder: Encoder) -> tuple[Table, NDArray[np.int64]]:
        return whole_rows(encoder)


def _told(batches: Iterable[Any], work: Phase) -> Iterator[Any]:
    """The batches; their rows are steps of the phase, which tells them only where their number is public. They are told
    in equal portions: a batch ends where its file does, and how many rows a folder `illness=flu` has is private."""
    untold = 0
    for batch in batches:
        yield batch
        untold += batch.num_rows
        while untold >= _PORTION:
            work.advance(_PORTION)
            untold -= _PORTION


@runtime_checkable
class BringsEngine(Protocol):
    """A source whose rows lie elsewhere, and who counts them there."""

    def engine(self) -> Engine:
        """Who counts."""
        ...


def engine_of(source: Source) -> Engine:
    """The engine of a source."""
    return source.engine() if isinstance(source, BringsEngine) else _Local()

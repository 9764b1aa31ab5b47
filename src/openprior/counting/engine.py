"""Where counting happens: on this machine, or where the source's rows are.

An engine encodes and counts a source in one pass. Where it counts there is also an executor, which runs a pure function
on every item of a list, side by side, and holds no rows. A source that lives on a cluster brings its engine; any other
source is counted here.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from openprior.counting.cells import Cells
from openprior.counting.cores import workers
from openprior.counting.local import count_batches
from openprior.tables.encode import Encoder
from openprior.tables.source import Source

__all__ = ["BringsEngine", "Engine", "Executor", "Threads", "engine_of"]

A = TypeVar("A")
B = TypeVar("B")


class Executor(Protocol):
    """Who runs what can be run apart; it holds nothing private."""

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The function's value for each item, in order. It may be sent elsewhere, with the items: function and items
        hold only what is public or was released."""
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


class Threads:
    """Threads of this process, one per core: functions should release the GIL where they work."""

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """Side by side, in order."""
        with ThreadPoolExecutor(workers()) as pool:
            return list(pool.map(function, items))


class _Local:
    """This machine: every core counts."""

    executor = Threads()

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        encode = encoder.one_pass()
        return count_batches(encoder.source.batches(encoder.columns_read), encode, cells)


@runtime_checkable
class BringsEngine(Protocol):
    """A source whose rows lie elsewhere, and who counts them there."""

    def engine(self) -> Engine:
        """Who counts."""
        ...


def engine_of(source: Source) -> Engine:
    """The engine of a source."""
    return source.engine() if isinstance(source, BringsEngine) else _Local()

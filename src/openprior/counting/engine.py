"""Where counting happens: on this machine, or where the source's rows are.

An engine does two things: `count` encodes and counts a source in one pass, and `each` runs a pure function on every
item of a list, side by side. A source that lives on a cluster brings its engine; every other source is counted here.
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

__all__ = ["BringsEngine", "Engine", "engine_of"]

A = TypeVar("A")
B = TypeVar("B")


class Engine(Protocol):
    """Who counts, and who runs what can be run apart."""

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        """The flat counts of all cells over the encoder's source, at most Δ rows per person, and the number of rows."""
        ...

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        """The function's value for each item, in order. It may be sent elsewhere, with the items: it sees no private
        data and draws no noise."""
        ...


class _Local:
    """This machine: every core counts; threads share the items, so functions should release the GIL where they work."""

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        limited = map(encoder.limit(), encoder.source.batches(encoder.columns_read))
        return count_batches(limited, encoder.encode, cells)

    def each(self, function: Callable[[A], B], items: Iterable[A]) -> list[B]:
        with ThreadPoolExecutor(workers()) as pool:
            return list(pool.map(function, items))


@runtime_checkable
class BringsEngine(Protocol):
    """A source whose rows lie elsewhere, and who counts them there."""

    def engine(self) -> Engine:
        """Who counts."""
        ...


def engine_of(source: Source) -> Engine:
    """The engine of a source."""
    return source.engine() if isinstance(source, BringsEngine) else _Local()

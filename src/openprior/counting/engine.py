"""Where counting happens: on this machine, or where the source's rows are.

An engine does two things: `count` encodes and counts a source in one pass, and `each` runs a pure function on every
item of a list, side by side. A source that lives on a cluster names its engine; every other source is counted here.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import count_batches, workers
from openprior.counting.plan import Cells
from openprior.data.encode import Encoder
from openprior.data.source import Source

if TYPE_CHECKING:
    from openprior.data.spark import SparkFiles, SparkSource

__all__ = ["Engine", "engine_of"]

A = TypeVar("A")
B = TypeVar("B")


class Engine(Protocol):
    """Who counts, and who runs what can be run apart."""

    def count(self, encoder: Encoder, cells: Cells) -> tuple[NDArray[np.int64], int]:
        """The flat counts of all cells over the encoder's source, at most Δ rows a person, and the number of rows."""
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


def engine_of(source: Source) -> Engine:
    """The engine of a source."""
    if getattr(source, "on_spark", False):
        from openprior.counting.spark import SparkEngine

        return SparkEngine(cast("SparkSource | SparkFiles", source))
    return _Local()

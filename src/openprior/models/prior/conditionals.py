"""The conditionals of one attribute: distributions of every context that occurs, each shrunk towards a shorter one.

p(v | b₁..b_l) = (count + s_l·p(v | b₁..b_{l−1})) / (N + s_l), down to the uniform distribution; s_l has the highest
leave-one-out likelihood. The distributions of all levels are rows of one table, and an index over all contexts of the
parents says which row is meant, where a context that does not occur has the row of a shorter one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled
from openprior.models.prior.contexts import STRENGTHS, Contexts, best_strength, divide, give_back, start
from openprior.models.prior.parents import NUMBERS

__all__ = ["Conditional", "Conditionals"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Conditional:
    """One attribute: its parents, the index over their contexts, and the distributions [row, value]."""

    parents: tuple[int, ...]
    index: NDArray[np.int32]
    table: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class _Level:
    """What is known of a list of parents, as the next longer list needs it."""

    parents: tuple[int, ...]
    contexts: Contexts
    numbers: Ints
    """Of each context that occurs, its number among all contexts of the parents."""
    index: NDArray[np.int32]
    tables: list[NDArray[np.float32]]
    rows: int
    """Of all tables together."""


class Conditionals:
    """The conditionals of an attribute. A list of parents that begins as the one before it takes over what they have
    in common; only that is kept, so that a long table costs a few times its rows."""

    def __init__(self, columns: NDArray[np.uint16], sizes: Ints, a: int) -> None:
        self._columns, self._sizes, self._a = columns, sizes, a
        contexts = start(columns[a], sizes[a])
        self._by_value = contexts.order
        uniform = np.full((1, int(sizes[a])), 1 / sizes[a], np.float32)
        nothing = np.zeros(1, np.int32)
        table = self._shrunk(contexts, uniform, nothing)
        self._levels = [_Level((), contexts, np.zeros(1, np.int64), nothing, [table], 1)]

    def given(self, parents: Sequence[int]) -> Conditional:
        """The conditional; later parents are left out where their contexts would be too many."""
        while self._levels[-1].parents != tuple(parents[: len(self._levels) - 1]):
            self._levels.pop()
        for b in parents[len(self._levels) - 1 :]:
            longer = self._longer(self._levels[-1], b)
            if longer is None:
                break
            self._levels.append(longer)
        last = self._levels[-1]
        return Conditional(last.parents, last.index, np.concatenate(last.tables))

    def _longer(self, level: _Level, b: int) -> _Level | None:
        column, size = self._columns[b], int(self._sizes[b])
        contexts = divide(level.contexts, self._by_value, column, size)
        count = len(contexts.firsts) - 1
        if (level.rows + count) * self._sizes[self._a] > 4 * NUMBERS:
            return None
        one_row = contexts.order[contexts.starts[contexts.firsts[:-1]]]
        above = level.contexts.context[one_row]
        numbers = level.numbers[above] * size + column[one_row]
        index = np.repeat(level.index, size)
        index[numbers] = np.arange(level.rows, level.rows + count, dtype=np.int32)
        table = self._shrunk(contexts, level.tables[-1], above)
        return _Level(
            (*level.parents, b), contexts, numbers, index, [*level.tables, table], level.rows + count
        )

    def _shrunk(
        self, contexts: Contexts, shorter: NDArray[np.float32], above: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        _, strength = best_strength(contexts, STRENGTHS)
        table = _mix(contexts, self._columns[self._a], shorter, above, strength)
        give_back(contexts, strength)
        return np.asarray(table)


@compiled()
def _mix(c, values, shorter, above, s):  # type: ignore[no-untyped-def]
    """[context, value]: (count + s·p) / (N + s), with p the distribution of the shorter context above."""
    table = np.empty((len(above), shorter.shape[1]), np.float32)
    for k in range(len(above)):
        first, last = c.firsts[k], c.firsts[k + 1]
        part = 1.0 / (c.starts[last] - c.starts[first] + s)
        for v in range(table.shape[1]):
            table[k, v] = s * part * shorter[above[k], v]
        for cell in range(first, last):
            low, high = c.starts[cell], c.starts[cell + 1]
            table[k, values[c.order[low]]] += (high - low) * part
    return table

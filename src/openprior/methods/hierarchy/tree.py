"""The groups of a hierarchy: levels of keys, and which groups of the levels above every group lies in.

A leaf is a combination of the last level's key values; every combination that the schema has is one. A group of a
coarser level is a union of leaves. All of this is the schema's, and so public.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.methods.base import check
from openprior.questions.workload import Marginal, canonical
from openprior.schema.layout import Layout
from openprior.tables.table import Table

__all__ = ["Tree"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_GROUPS = 200_000


class Tree:
    """The levels, and which of each level's groups every leaf lies in."""

    def __init__(self, layout: Layout, levels: Sequence[Sequence[str]] = ()) -> None:
        """Of these levels, coarsest first, or of those that the schema declares."""
        self._layout, domain = layout, layout.full_domain
        self.levels: list[Marginal] = [
            canonical(level, domain) if level else () for level in levels or _declared(layout)
        ]
        self.keys: Marginal = self.levels[-1]
        self._check()
        self.attributes: Marginal = tuple(a for a in layout.domain if a not in self.keys)
        """The columns that are no keys of a leaf."""
        self.leaves: list[tuple[int, ...]] = list(np.ndindex(*(domain[a] for a in self.keys)))
        codes = {a: np.array([leaf[i] for leaf in self.leaves], np.int64) for i, a in enumerate(self.keys)}
        self.parents: list[Ints] = [self.number(level, codes, len(self.leaves)) for level in self.levels]
        """Of each level: the number of the group that every leaf lies in."""
        self.counts: list[int] = [math.prod(domain[a] for a in level) for level in self.levels]
        """How many groups each level has."""
        self.members: list[list[Ints]] = [_members(*of) for of in zip(self.parents, self.counts, strict=True)]
        """Of each level: the leaves of every group."""

    def inside(self, table: Table) -> Table:
        """A table without the keys of a leaf."""
        return Table(table.domain.project(self.attributes), tuple(table.column(a) for a in self.attributes))

    def number(self, keys: Marginal, codes: Mapping[str, Ints], count: int) -> Ints:
        """The number of the combination of keys (columns or levels) that each of so many column codes belongs to."""
        number = np.zeros(count, np.int64)
        for key in keys:
            level = self._layout.levels.get(key)
            own = codes[key] if level is None else level.codes[codes[level.column]]
            number = number * self._layout.full_domain[key] + own
        return number

    def column_of(self, key: str) -> str:
        """The column that a key is, or is a level of."""
        return self._layout.levels[key].column if key in self._layout.levels else key

    def by_group(self, values: Floats, marginal: Marginal, level: int, inside: Marginal) -> Floats:
        """A marginal over a level's keys and the attributes `inside`, as [group, cell]."""
        domain = self._layout.full_domain
        order = [marginal.index(a) for a in (*self.levels[level], *inside)]
        cells = math.prod(domain[a] for a in inside)
        cube = values.reshape([domain[a] for a in marginal]).transpose(order)
        return np.ascontiguousarray(cube).reshape(-1, cells)

    def _check(self) -> None:
        domain = self._layout.domain
        for key in self.keys:
            if key not in domain:
                raise OptionError(
                    f"the last level names '{key}', which is no column; name the columns of a group"
                )
        for level in self.levels[:-1]:
            for key in level:
                column = self.column_of(key)
                if column not in self.keys:
                    raise OptionError(
                        f"'{key}' is not decided by the last level ({', '.join(self.keys)}); add '{column}'"
                    )
        count = math.prod(domain[a] for a in self.keys)
        check(
            count <= _MOST_GROUPS,
            f"the schema has {count:,} groups, more than {_MOST_GROUPS:,}; use fewer keys",
        )
        check(len(set(domain) - set(self.keys)) > 0, "a group needs at least one column that is not a key")


def _members(numbers: Ints, size: int) -> list[Ints]:
    """Which leaves have each number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, size)))


def _declared(layout: Layout) -> tuple[tuple[str, ...], ...]:
    """The levels of the schema's longest hierarchy, coarsest first; the whole table as one group if there is none."""
    chains: dict[str, list[str]] = {}
    for name, level in layout.levels.items():
        chains.setdefault(level.column, []).append(name)
    if not chains:
        return ((),)
    column, names = max(chains.items(), key=lambda item: len(item[1]))
    return (*((name,) for name in reversed(names)), (column,))

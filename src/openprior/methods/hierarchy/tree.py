"""The groups of a hierarchy: levels of keys, and which groups of the levels above every group lies in.

A leaf is a combination of the last level's key values; every combination that the schema has is one. A group of a
coarser level is a union of leaves.
"""

import math

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.methods.base import check
from openprior.methods.hierarchy.group_priors import GroupPrior, codes_at
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.questions.workload import Marginal, canonical
from openprior.tables.encode import Table
from openprior.tables.table import join

__all__ = ["Tree", "by_group"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_MOST_GROUPS = 200_000


class Tree:
    """The levels, and which of each level's groups every leaf (a combination of the last level's keys) lies in."""

    def __init__(self, curator: Curator, wanted: tuple[tuple[str, ...], ...]) -> None:
        domain = curator.layout.full_domain
        self.levels: list[Marginal] = [
            canonical(level, domain) if level else () for level in wanted or _declared(curator)
        ]
        self.keys: Marginal = self.levels[-1]
        for key in self.keys:
            if key not in curator.domain:
                raise OptionError(
                    f"the last level names '{key}', which is no column; name the columns of a group"
                )
        for level in self.levels[:-1]:
            for key in level:
                base = curator.layout.levels[key].column if key in curator.layout.levels else key
                if base not in self.keys:
                    raise OptionError(
                        f"'{key}' is not decided by the last level ({', '.join(self.keys)}); add '{base}'"
                    )
        count = math.prod(domain[a] for a in self.keys)
        check(
            count <= _MOST_GROUPS,
            f"the schema has {count:,} groups, more than {_MOST_GROUPS:,}; use fewer keys",
        )
        check(
            len(set(curator.domain) - set(self.keys)) > 0,
            "a group needs at least one column that is not a key",
        )
        self.leaves: list[tuple[int, ...]] = list(np.ndindex(*(domain[a] for a in self.keys)))
        codes = {a: np.array([leaf[i] for leaf in self.leaves], np.int64) for i, a in enumerate(self.keys)}
        codes = codes or {"": np.zeros(1, np.int64)}
        found = [codes_at(curator, level, codes) for level in self.levels]
        self.parents: list[Ints] = [numbers for numbers, _ in found]
        self.counts: list[int] = [size for _, size in found]
        self._children = [_members(numbers, size) for numbers, size in found]
        self.size = domain.__getitem__
        """How many values a key or attribute has."""

    def union(
        self, level: int, group: int, priors: list[GroupPrior], weights: list[Floats] | None = None
    ) -> tuple[Table, Floats, list[tuple[int, int]]]:
        """The rows of all leaves in a group, with each leaf's share of the public rows; and where each leaf's begin.

        Leaves that share a prior table share its rows here too.
        """
        leaves = self._children[level][group]
        shares = np.array([priors[i].public for i in leaves], np.float64)
        shares = (shares + 1e-3) / (shares + 1e-3).sum() if len(leaves) else shares
        starts: dict[int, int] = {}
        tables: list[Table] = []
        places: list[tuple[int, int]] = []
        end = 0
        for i in leaves:
            rows = priors[i].rows
            if id(rows) not in starts:
                starts[id(rows)] = end
                tables.append(rows)
                end += rows.n
            places.append((int(i), starts[id(rows)]))
        mass = np.zeros(end)
        for (i, start), share in zip(places, shares, strict=True):
            own = priors[i].weights if weights is None else weights[i]
            mass[start : start + len(own)] += share * own
        if not tables:  # a combination of levels that no column codes belong to
            return priors[0].rows, priors[0].weights, []
        return join(tables), mass / mass.sum(), places


def _members(numbers: Ints, size: int) -> list[Ints]:
    """Which leaves have each number."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, size)))


def _declared(curator: Curator) -> tuple[tuple[str, ...], ...]:
    """The levels of the schema's longest hierarchy, coarsest first; the whole table as one group if there is none."""
    chains: dict[str, list[str]] = {}
    for name, level in curator.layout.levels.items():
        chains.setdefault(level.column, []).append(name)
    if not chains:
        return ((),)
    column, names = max(chains.items(), key=lambda item: len(item[1]))
    return (*((name,) for name in reversed(names)), (column,))


def by_group(measured: Measurement, tree: Tree, level: int, inside: Marginal) -> Floats:
    """A marginal over a level's keys and the attributes `inside`, as [group, cell]."""
    marginal = measured.marginal
    shape = [tree.size(a) for a in marginal]
    order = [marginal.index(a) for a in (*tree.levels[level], *inside)]
    cells = math.prod(tree.size(a) for a in inside)
    return np.ascontiguousarray(measured.values.reshape(shape).transpose(order)).reshape(-1, cells)

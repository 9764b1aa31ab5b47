"""Message passing on a junction tree: log-potentials of factors in, their marginals out.

A factor is a table over a marginal that lies in some clique. The tree is written down as integer tables (which clique
collects which factors and messages, along which maps), and one compiled loop runs any of them; so a new tree
costs the maps, which are small: each is two halves, whose sizes multiply to the clique's.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.junction import JunctionTree
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["CONSTANT", "CONTIGUOUS", "SCATTERED", "Propagation", "layout", "offsets", "sum_down"]

Floats = NDArray[np.float64]

CONSTANT, CONTIGUOUS, SCATTERED = 0, 1, 2
"""What a map's inner half does: all in one cell, one cell each in a row, or anything."""
_INNER = 1024
"""Cells of a map's inner half, at most; two such tables stay in the first-level cache."""
_GROUP = 1 << 14
"""Cells of a root that are worked through together."""
_EVEN = 16
"""Cells that are summed together, or lie side by side, from which on a loop of their own is faster."""


def layout(clique: Marginal, separator: Marginal) -> Marginal:
    """The order of a clique's axes: the separator first, so that what is summed away lies together."""
    return (*separator, *(a for a in clique if a not in separator))


def sum_down(table: Floats, domain: Domain, axes: Sequence[str], target: Marginal) -> Floats:
    """The marginal of a flat table on some of its axes, in the target's order; one pass, whichever axes they are."""
    from openprior.models.graphical.messages import project

    pool: list[NDArray[np.int32]] = []
    link = np.array(_map(domain, axes, target, 0, pool), np.int64)
    sums = np.zeros(domain.size(target))
    project(table, sums, link, domain.size(axes[_split(domain, axes) :]), np.concatenate(pool))
    return sums


class Propagation:
    """The tables of one tree and one set of factors, and room to compute in."""

    def __init__(self, tree: JunctionTree, factors: Iterable[Marginal]) -> None:
        self.tree = tree
        self.factors: tuple[Marginal, ...] = tuple(dict.fromkeys(factors))
        domain = tree.domain
        sizes = [domain.size(m) for m in self.factors]
        self.starts = dict(zip(self.factors, np.cumsum([0, *sizes]).tolist(), strict=False))
        self.length = sum(sizes)
        self.axes = [layout(c, s) for c, s in zip(tree.cliques, tree.separators, strict=True)]
        widths = [
            domain.size(axes[: _leading(domain, axes)] if parent < 0 else separator)
            for axes, separator, parent in zip(self.axes, tree.separators, tree.parents, strict=True)
        ]
        cells = [domain.size(c) for c in tree.cliques]
        self._separators: list[int] = (self.length + np.cumsum([0, *widths[:-1]])).tolist()
        self.clique_starts: list[int] = np.cumsum([0, *cells]).tolist()
        roots = [parent < 0 for parent in tree.parents]
        blocks = [domain.size(axes[_split(domain, axes) :]) for axes in self.axes]
        self._cliques = np.array(
            [*zip(self.clique_starts, cells, self._separators, widths, roots, blocks, strict=False)], np.int64
        )
        self._link(domain, self.length + sum(widths))
        self.beliefs = np.zeros(self.clique_starts[-1])

    def _link(self, domain: Domain, used: int) -> None:
        """Where each factor and each child's message goes: into the smallest table that contains it.

        That is a larger factor of the same clique, or an auxiliary table over the union of two, where that is so much
        smaller than the clique that adding them up there first saves work; or else the clique.
        """
        tree = self.tree
        members: list[dict[Marginal, list[int]]] = [{} for _ in tree.cliques]
        for factor in self.factors:
            clique = tree.host(factor)
            if clique is None:
                raise ValueError(f"factor {factor} is in no clique of the tree")
            members[clique].setdefault(factor, []).append(self.starts[factor])
        for c, parent in enumerate(tree.parents):
            if parent >= 0:
                members[parent].setdefault(tree.separators[c], []).append(self._separators[c])
        pool: list[NDArray[np.int32]] = []
        nested: list[list[tuple[int, ...]]] = []
        links: list[list[tuple[int, ...]]] = []
        self._auxiliary: list[tuple[int, int]] = []
        for axes, inside in zip(self.axes, members, strict=True):
            hosts, unions = _hosts(domain, axes, list(inside))
            for union in unions:
                inside[union] = [used]
                self._auxiliary.append((used, used + domain.size(union)))
                used += domain.size(union)
            mine: list[tuple[int, ...]] = []
            direct: list[tuple[int, ...]] = []
            for table in sorted(inside, key=lambda m: (domain.size(m), len(m))):
                first, *others = inside[table]
                for start in others:  # a factor on a separator: one table for both
                    mine.append(self._nest(domain, table, first, table, start, pool))
                host = hosts.get(table)
                if host is None:
                    direct.append((*_map(domain, axes, table, first, pool), 0, 0, 0))
                else:
                    mine.append(self._nest(domain, host, inside[host][0], table, first, pool))
            nested.append(mine)
            links.append(direct)
        self._nested, self._inside = _rows(nested)
        self._links, self._first = _rows(links)
        self._pool = np.concatenate(pool) if pool else np.zeros(0, np.int32)
        self._source, self._sink, self._sums = np.zeros(used), np.zeros(used), np.ones(used)

    @staticmethod
    def _nest(
        domain: Domain, host: Marginal, at: int, table: Marginal, start: int, pool: list[NDArray[np.int32]]
    ) -> tuple[int, ...]:
        block = domain.size(host[_split(domain, host) :])
        return (*_map(domain, host, table, start, pool), at, domain.size(host), block)

    def marginals(self, potentials: Floats, total: float) -> tuple[Floats, float]:
        """The factors' marginals under p ∝ exp(Σ potentials), scaled to the total, and log Z.

        Afterwards `beliefs` has the cliques' marginals. The result is a view that the next call overwrites.
        """
        from openprior.models.graphical.messages import propagate

        self._fill(potentials)
        log_z = propagate(
            self._source,
            self._sink,
            self._sums,
            self.beliefs,
            self._nested,
            self._inside,
            self._cliques,
            self._links,
            self._first,
            self._pool,
            total,
        )
        return self._sink[: self.length], float(log_z)

    def largest(self, values: Floats) -> float:
        """The largest Σ values over all rows of the domain; overwrites the beliefs."""
        from openprior.models.graphical.messages import largest

        self._fill(values)
        tables = (self._nested, self._inside, self._cliques, self._links, self._first, self._pool)
        return float(largest(self._source, self.beliefs, *tables))

    def _fill(self, values: Floats) -> None:
        self._source[: self.length] = values
        for start, end in self._auxiliary:
            self._source[start:end] = 0.0

    def clique_tables(self) -> list[Floats]:
        """Copies of the cliques' marginals, each with one axis per attribute, in the order of `axes`."""
        shape = [[self.tree.domain[a] for a in axes] for axes in self.axes]
        ends = self.clique_starts
        return [self.beliefs[ends[i] : ends[i + 1]].reshape(s).copy() for i, s in enumerate(shape)]


def _hosts(
    domain: Domain, axes: Marginal, tables: list[Marginal]
) -> tuple[dict[Marginal, Marginal], list[Marginal]]:
    """A larger table for each that has one, and the auxiliary tables; those without one go to the clique itself."""
    hosts: dict[Marginal, Marginal] = {}
    by_size = sorted(tables, key=lambda m: (domain.size(m), len(m)))
    for k, table in enumerate(by_size):
        host = next((m for m in by_size[k + 1 :] if set(table) < set(m)), None)
        if host is not None:
            hosts[table] = host
    loose, unions = [m for m in by_size if m not in hosts], list[Marginal]()
    cells = domain.size(axes)
    while len(loose) > 1:
        pairs = [
            (domain.size(set(a) | set(b)), i, j) for i, a in enumerate(loose) for j, b in enumerate(loose[:i])
        ]
        size, i, j = min(pairs)
        if 2 * size >= cells:
            break
        union = tuple(a for a in domain if a in loose[i] or a in loose[j])
        hosts[loose[i]] = hosts[loose[j]] = union
        unions.append(union)
        inside = [m for m in loose if set(m) < set(union)]
        hosts.update(dict.fromkeys(inside, union))
        loose = [*(m for m in loose if m not in inside), union]
    return hosts, unions


def _leading(domain: Domain, axes: Sequence[str]) -> int:
    """How many of a root's first axes stand in for its separator: so many that the rest fits the cache."""
    split, inner = len(axes), 1
    while split > 0 and inner * domain[axes[split - 1]] <= _GROUP:
        split -= 1
        inner *= domain[axes[split]]
    return split


def _rows(lists: list[list[tuple[int, ...]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All rows in one table, and where each list's begin."""
    rows = np.array([row for one in lists for row in one], np.int64).reshape(-1, 9)
    return rows, np.cumsum([0, *map(len, lists)])


def _map(
    domain: Domain, axes: Sequence[str], target: Marginal, start: int, pool: list[NDArray[np.int32]]
) -> tuple[int, ...]:
    """Put the two halves of the map from a table to a smaller one in the pool; returns where they are."""
    split = _split(domain, axes)
    outer, inner = offsets(domain, axes[:split], target), offsets(domain, axes[split:], target)
    run, kind = _run(domain, axes[split:], _strides(domain, target))
    begin = sum(map(len, pool))
    pool += [outer, inner]
    return start, domain.size(target), begin, begin + len(outer), run, kind


def _split(domain: Domain, axes: Sequence[str]) -> int:
    """Where the inner half of a table's maps begins: as many of the last axes as fit the cache, but one at least."""
    split, inner = len(axes) - 1, domain[axes[-1]]
    while split > 0 and inner * domain[axes[split - 1]] <= _INNER:
        split -= 1
        inner *= domain[axes[split]]
    return split


def _run(domain: Domain, axes: Sequence[str], strides: dict[str, int]) -> tuple[int, int]:
    """How many cells from the last axes on are all summed, or all side by side; and which of the two."""
    summed, run, stride = axes[-1] not in strides, 1, 1
    for a in reversed(axes):
        if strides.get(a, 0) != (0 if summed else stride):
            break
        run *= domain[a]
        stride *= domain[a]
    if run < _EVEN:
        return 1, SCATTERED
    return run, CONSTANT if summed else CONTIGUOUS


def offsets(domain: Domain, axes: Sequence[str], target: Sequence[str]) -> NDArray[np.int32]:
    """For every cell of a table with these axes, its place in the target as far as they tell it."""
    strides = _strides(domain, target)
    places = np.zeros(1, np.int32)
    for a in axes:
        steps = np.arange(domain[a], dtype=np.int32) * strides.get(a, 0)
        places = np.add.outer(places, steps).reshape(-1)
    return places


def _strides(domain: Domain, target: Sequence[str]) -> dict[str, int]:
    return {a: math.prod(domain[b] for b in target[i + 1 :]) for i, a in enumerate(target)}

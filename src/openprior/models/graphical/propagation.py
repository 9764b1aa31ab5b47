"""Message passing on a junction tree: log-potentials of factors in, their marginals out.

A factor is a table over a marginal that lies in some clique. The tree is written down as integer tables: which factors
and messages make up the tables of which each clique is the product (clique_products.py), and along which maps. One
compiled loop (messages.py) runs any of them, so a new tree costs the maps, which are no larger than those tables.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.clique_products import Triangle, gathered
from openprior.models.graphical.junction import JunctionTree
from openprior.models.graphical.marginalisation import layout, multiplied, offsets
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Propagation"]

Floats = NDArray[np.float64]


class _Maps:
    """Maps from the cells of tables to those of smaller ones, one after the other."""

    def __init__(self, domain: Domain) -> None:
        self._domain, self._maps, self._length = domain, list[NDArray[np.int32]](), 0

    def add(self, table: Marginal, target: Marginal) -> int:
        """Where the map begins."""
        begin = self._length
        self._maps.append(offsets(self._domain, table, target))
        self._length += len(self._maps[-1])
        return begin

    def all(self) -> NDArray[np.int32]:
        """In one array."""
        return np.concatenate([np.zeros(0, np.int32), *self._maps])


class Propagation:
    """The tables of one tree and one set of factors, and room to compute in."""

    _starts_in_logs = False

    def __init__(self, tree: JunctionTree, factors: Iterable[Marginal]) -> None:
        self.tree = tree
        self.factors: tuple[Marginal, ...] = tuple(dict.fromkeys(factors))
        domain = tree.domain
        sizes = [domain.size(m) for m in self.factors]
        self.starts = dict(zip(self.factors, np.cumsum([0, *sizes]).tolist(), strict=False))
        self.length = sum(sizes)
        self.axes = [layout(c, s) for c, s in zip(tree.cliques, tree.separators, strict=True)]
        self._in_logs, self._total = self._starts_in_logs, 1.0
        self._link(domain)

    def _link(self, domain: Domain) -> None:
        """Where each factor and each child's message goes."""
        tree, used = self.tree, self.length
        members: list[dict[Marginal, list[int]]] = [{} for _ in tree.cliques]
        for factor in self.factors:
            clique = tree.host(factor)
            if clique is None:
                raise ValueError(f"factor {factor} is in no clique of the tree")
            members[clique].setdefault(factor, []).append(self.starts[factor])
        separators: list[int] = []
        for parent, separator in zip(tree.parents, tree.separators, strict=True):
            separators.append(used)
            used += domain.size(separator)
            if parent >= 0:
                members[parent].setdefault(separator, []).append(separators[-1])
        maps, room = _Maps(domain), 0
        nested: list[tuple[int, ...]] = []
        inside, cliques, slots = [0], list[tuple[int, ...]](), list[list[tuple[int, ...]]]()
        self._auxiliary: list[tuple[int, int]] = []
        self._triangles: list[Triangle] = []
        for c, tables in enumerate(members):
            is_root = tree.parents[c] < 0
            hosts, unions = gathered(domain, list(tables), 3 if is_root else 2)
            for union in unions:
                tables[union] = [used]
                self._auxiliary.append((used, used + domain.size(union)))
                used += domain.size(union)
            loose: list[Marginal] = []
            for table in sorted(tables, key=lambda m: (domain.size(m), len(m))):
                first, *others = tables[table]
                # A factor on a separator: one table for both.
                inner = [(table, first, start) for start in others]
                if table in hosts:
                    inner.append((hosts[table], tables[hosts[table]][0], first))
                else:
                    loose.append(table)
                for host, at, start in inner:
                    nested.append((start, domain.size(table), at, domain.size(host), maps.add(host, table)))
            inside.append(len(nested))
            third = tree.separators[c] if not is_root else loose.pop() if len(loose) == 3 else ()
            one, other, *_ = [*loose, (), ()]
            triangle = Triangle.of(domain, one, other, third)
            self._triangles.append(triangle)
            ends = np.cumsum([room, *map(domain.size, triangle.sides)]).tolist()
            room = ends[-1]
            covered = {a for m in triangle.tables for a in m}
            spare = domain.size([a for a in tree.cliques[c] if a not in covered])
            cliques.append((is_root, *triangle.shape, spare, *ends))
            starts = [tables[m][0] if m else 0 for m in triangle.tables[:2]]
            starts.append(separators[c] if not is_root else tables[third][0] if third else 0)
            slots.append(
                [
                    (start, domain.size(m) if m else 0, maps.add(m, side))
                    for start, m, side in zip(starts, triangle.tables, triangle.sides, strict=True)
                ]
            )
        self._nested = np.array(nested, np.int64).reshape(-1, 5)
        self._inside = np.array(inside, np.int64)
        self._cliques, self._slots = np.array(cliques, np.int64), np.array(slots, np.int64)
        self._pool = maps.all()
        self._logs, self._values, self._sink = np.zeros(used), np.zeros(used), np.zeros(used)
        self._packed, self._weights = np.zeros(room), np.zeros(room)

    def marginals(self, potentials: Floats, total: float) -> tuple[Floats, float]:
        """The factors' marginals under p ∝ exp(Σ potentials), scaled to the total, and log Z.

        The result is a view that the next call overwrites.
        """
        self._total = total
        log_z = self._propagate(potentials, total)
        if log_z == np.inf:  # the potentials spread too far for numbers; others of this fit will, too
            self._in_logs = True
            log_z = self._propagate(potentials, total)
        return self._sink[: self.length], log_z

    def _propagate(self, potentials: Floats, total: float) -> float:
        from openprior.models.graphical.messages import propagate

        self._fill(potentials)
        workspace = (self._logs, self._values, self._sink, self._packed, self._weights)
        return float(propagate(*workspace, *self._tables(), total, self._in_logs))

    def largest(self, values: Floats) -> float:
        """The largest Σ values over all rows of the domain; `clique_tables` are of no use after it."""
        from openprior.models.graphical.messages import largest

        self._fill(values)
        return float(largest(self._logs, self._packed, self._weights, *self._tables()))

    def _tables(self) -> tuple[NDArray[np.integer], ...]:
        return self._cliques, self._slots, self._nested, self._inside, self._pool

    def _fill(self, values: Floats) -> None:
        self._logs[: self.length] = values
        for start, end in self._auxiliary:
            self._logs[start:end] = 0.0

    def clique_tables(self, total: float | None = None) -> list[Floats]:
        """The cliques' marginals by the last call of `marginals`, with its total or another, each with one axis per
        attribute in the order of `axes`."""
        domain, tables = self.tree.domain, []
        for c, axes in enumerate(self.axes):
            parts = [(m, self._part(c, t)) for t, m in enumerate(self._triangles[c].tables)]
            if self._in_logs:
                shape = [domain[a] for a in axes]
                logs = sum((_along(domain, axes, m, part) for m, part in parts), np.zeros(shape))
                table = np.exp(logs - logs.max()).reshape(-1)
                mass = float(table.sum())
            else:
                table, mass = multiplied(domain, axes, parts)
            table *= (self._total if total is None else total) / mass
            tables.append(table.reshape([domain[a] for a in axes]))
        return tables

    def _part(self, c: int, t: int) -> Floats:
        """One of the tables that a clique is the product of; R is what came from the parent for what A and B say."""
        start, size, at = self._slots[c, t]
        is_root, *_, third, end = self._cliques[c]
        if size == 0:
            return np.zeros(1) if self._in_logs else np.ones(1)
        if t < 2 or is_root:
            return self._values[start : start + size]
        said = self._weights[third:end][self._pool[at : at + size]]
        came = self._sink[start : start + size]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(came) - said if self._in_logs else came / said
        return np.where(said > (-np.inf if self._in_logs else 0.0), ratio, -np.inf if self._in_logs else 0.0)


def _along(domain: Domain, axes: Marginal, marginal: Marginal, values: Floats) -> Floats:
    """A flat table over some of the axes, so that it can be added to one over all."""
    table = values.reshape([domain[a] for a in marginal])
    table = table.transpose([marginal.index(a) for a in axes if a in marginal])
    return table.reshape([domain[a] if a in marginal else 1 for a in axes])

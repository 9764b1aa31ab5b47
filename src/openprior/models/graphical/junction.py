"""The junction tree: which tables a graphical model needs, and how they hang together.

Attributes that are in a marginal together are joined by an edge; a greedy elimination order makes the graph chordal;
its maximal cliques are the model's tables, joined in a tree (a forest, if the graph falls apart) along the largest
shared sets. `Structure` predicts how large the model would become with one more marginal, which JAM-PGM and AIM ask
hundreds of times per round: compiled, remembered from round to round, and without building anything.

>>> from openprior.schema.domain import Domain
>>> domain = Domain({"a": 2, "b": 3, "c": 4, "d": 5})
>>> structure = Structure(domain, [("a", "b"), ("b", "c")])
>>> structure.cells, structure.cells_with(("c", "d")), structure.cells_with(("a", "c"))
(23.0, 38.0, 29.0)
>>> JunctionTree(domain, structure.with_marginal(("a", "c")).cliques).separators
((), ())
"""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal, canonical
from openprior.schema.domain import Domain

__all__ = ["JunctionTree", "Structure", "megabytes"]


def megabytes(cells: float) -> float:
    """The size of so many cells, at eight bytes each."""
    return cells * 8 / 2**20


class Structure:
    """The cliques that a set of marginals needs; immutable."""

    def __init__(self, domain: Domain, marginals: Iterable[Iterable[str]] = ()) -> None:
        self.domain = domain
        self._position = {a: i for i, a in enumerate(domain)}
        self._sizes = np.array(domain.shape, np.float64)
        self._masks: dict[Marginal, int] = {}
        self._known: dict[tuple[int, ...], float] = {}
        self._near = (0,) * len(domain)
        for marginal in marginals:
            self._near = _joined(self._near, self._mask(marginal))
        self._triangulate()

    def _triangulate(self) -> None:
        self._cliques, self._cells = _triangulate(self._near, self._sizes)
        self._wholes = [sum(1 << int(i) for i in np.flatnonzero(row)) for row in self._cliques]

    @property
    def cliques(self) -> tuple[Marginal, ...]:
        """The maximal cliques; every attribute is in one at least."""
        names = np.array(self.domain.attributes, dtype=object)
        return tuple(tuple(names[row]) for row in self._cliques)

    @property
    def cells(self) -> float:
        """How many cells the cliques' tables have together."""
        return self._cells

    @property
    def megabytes(self) -> float:
        """The size of the tables, at eight bytes per cell."""
        return megabytes(self._cells)

    def cells_with(self, marginal: Iterable[str]) -> float:
        """How many cells there would be with one more marginal."""
        mask = self._mask(marginal)
        if self._has(mask):
            return self._cells
        near = _joined(self._near, mask)
        cells = self._known.get(near)
        if cells is None:
            cells = self._known[near] = _triangulate(near, self._sizes)[1]
        return cells

    def megabytes_with(self, marginal: Iterable[str]) -> float:
        """The size of the tables with one more marginal."""
        return megabytes(self.cells_with(marginal))

    def with_marginal(self, marginal: Iterable[str]) -> "Structure":
        """The structure with one more marginal; as large as `cells_with` said."""
        mask = self._mask(marginal)
        larger = copy(self)
        larger._near = _joined(self._near, mask)
        if not self._has(mask):
            larger._triangulate()
        return larger

    def _has(self, mask: int) -> bool:
        """Whether a clique has them all: then nothing changes, even if another triangulation could now be found."""
        return any(mask & whole == mask for whole in self._wholes)

    def _mask(self, marginal: Iterable[str]) -> int:
        """The set of its attributes, one bit for each; looked at once."""
        key = tuple(marginal)
        mask = self._masks.get(key)
        if mask is None:
            mask = self._masks[key] = sum(1 << self._position[a] for a in canonical(key, self.domain))
        return mask


def _joined(near: tuple[int, ...], mask: int) -> tuple[int, ...]:
    """Each attribute's neighbours, where all in a set are now each other's."""
    return tuple((n | mask) & ~(1 << i) if mask >> i & 1 else n for i, n in enumerate(near))


def _triangulate(near: tuple[int, ...], sizes: NDArray[np.float64]) -> tuple[NDArray[np.bool_], float]:
    """The maximal cliques of a chordal graph around this one, and their cells."""
    from openprior.models.graphical.chordal import triangulate

    d, width = len(near), len(near) // 8 + 1
    bits = np.frombuffer(b"".join(n.to_bytes(width, "little") for n in near), np.uint8).reshape(d, width)
    adjacent = np.unpackbits(bits, axis=1, count=d, bitorder="little").view(np.bool_)
    cliques = np.zeros_like(adjacent)
    count, cells = triangulate(adjacent, sizes, cliques)
    return cliques[:count], float(cells)


@dataclass(frozen=True, init=False)
class JunctionTree:
    """Maximal cliques, children before parents; each one's parent (or -1) and the attributes it shares with it."""

    domain: Domain
    cliques: tuple[Marginal, ...]
    parents: tuple[int, ...]
    separators: tuple[Marginal, ...]

    def __init__(self, domain: Domain, cliques: Iterable[Marginal]) -> None:
        given = tuple(cliques)
        order, up = _spanning(domain, given)
        place = {c: i for i, c in enumerate(order)}
        self._set(domain, tuple(given[c] for c in order), tuple(place.get(up[c], -1) for c in order))

    def _set(self, domain: Domain, cliques: tuple[Marginal, ...], parents: tuple[int, ...]) -> None:
        shared = [
            set(c) & set(cliques[p]) if p >= 0 else set() for c, p in zip(cliques, parents, strict=True)
        ]
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "cliques", cliques)
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "separators", tuple(tuple(a for a in domain if a in s) for s in shared))

    @classmethod
    def restore(cls, domain: Domain, cliques: Iterable[Marginal], parents: Iterable[int]) -> "JunctionTree":
        """A tree as it was, with the same cliques, order and parents."""
        tree = object.__new__(cls)
        tree._set(domain, tuple(cliques), tuple(parents))
        return tree

    @property
    def cells(self) -> int:
        """How many cells the cliques have together."""
        return sum(self.domain.size(c) for c in self.cliques)

    @property
    def treewidth(self) -> int:
        """Attributes in the largest clique, less one."""
        return max(map(len, self.cliques)) - 1

    def host(self, marginal: Iterable[str]) -> int | None:
        """The smallest clique that has all these attributes."""
        attributes = set(marginal)
        able = [i for i, c in enumerate(self.cliques) if attributes <= set(c)]
        return min(able, key=lambda i: self.domain.size(self.cliques[i])) if able else None


def _spanning(domain: Domain, cliques: tuple[Marginal, ...]) -> tuple[list[int], list[int]]:
    """Cliques with children before parents, and each one's parent (-1 for roots), in a maximum spanning forest.

    The forest is largest by the number of shared attributes, so it has the running intersection property. Every
    component is rooted at its largest clique, whose table then needs no message upwards.
    """
    sets = [set(c) for c in cliques]
    sizes = [domain.size(c) for c in cliques]
    parents, best = [-1] * len(cliques), [0] * len(cliques)
    left, order = set(range(len(cliques))), []
    while left:
        linked = max(left, key=lambda c: (best[c], sizes[c], -c))
        left.remove(linked)
        order.append(linked)
        for c in left:
            weight = len(sets[c] & sets[linked])
            if weight > best[c]:
                best[c], parents[c] = weight, linked
    return order[::-1], parents

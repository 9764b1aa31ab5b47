"""Where attributes of different cliques meet in a junction tree, what has to be sent there, and what that costs.

Sets of attributes are whole numbers here, with bit i for the domain's i-th attribute: unions and differences of small
sets are most of the work. Nothing is computed with tables, so a marginal's price is known before it is paid.
"""

import math
from collections.abc import Iterable
from functools import lru_cache

from openprior.models.graphical.junction import JunctionTree
from openprior.questions.workload import Marginal

__all__ = ["Routes", "routes_of"]

_WRITTEN = 10.0
"""What writing a cell of an intermediate table costs, in multiplications: those run side by side, from the cache."""


class Routes:
    """The ways through one tree."""

    def __init__(self, tree: JunctionTree) -> None:
        self._sizes = tree.domain.shape
        self._names = tree.domain.attributes
        self._bit = {a: 1 << i for i, a in enumerate(tree.domain)}
        self._products: dict[int, int] = {}
        self._cliques = [self.mask(c) for c in tree.cliques]
        self.near: list[dict[int, int]] = [{} for _ in tree.cliques]
        """For every clique its neighbours, and the separator towards each."""
        for c, parent in enumerate(tree.parents):
            if parent >= 0:
                self.near[c][parent] = self.near[parent][c] = self.mask(tree.separators[c])
        self._beyond: dict[tuple[int, int], int] = {}
        for c, near in enumerate(self.near):
            for other in near:
                self._side(other, c)
        self._homes = self._components()
        self._component = [
            self._homes[next(c for c, mask in enumerate(self._cliques) if mask >> i & 1)]
            for i in range(len(self._sizes))
        ]
        self._costs: dict[tuple[int, int, int], float] = {}
        self._meetings: dict[int, tuple[float, int]] = {}

    # Sets of attributes.

    def mask(self, attributes: Iterable[str]) -> int:
        """The set of these attributes."""
        return sum(self._bit[a] for a in attributes)

    def named(self, mask: int) -> Marginal:
        """The attributes of a set, in the domain's order."""
        return tuple(self._names[i] for i in self.indices(mask))

    def indices(self, mask: int) -> list[int]:
        """The places of a set's attributes."""
        return [i for i in range(len(self._sizes)) if mask >> i & 1]

    def size(self, mask: int) -> int:
        """The cells of a table over a set."""
        product = self._products.get(mask)
        if product is None:
            product = self._products[mask] = math.prod(s for i, s in enumerate(self._sizes) if mask >> i & 1)
        return product

    def parts(self, mask: int) -> list[int]:
        """A set, split by the tree's components; they are independent."""
        parts: dict[int, int] = {}
        for i in self.indices(mask):
            parts[self._component[i]] = parts.get(self._component[i], 0) | 1 << i
        return list(parts.values())

    # Ways.

    def meeting(self, mask: int) -> tuple[float, int]:
        """The price of the cheapest clique for these attributes (of one component) to meet in, and the clique."""
        meeting = self._meetings.get(mask)
        if meeting is None:
            inside = [c for c, clique in enumerate(self._cliques) if clique & mask == mask]
            if inside:
                meeting = 0.0, min(inside, key=lambda c: self.size(self._cliques[c]))
            else:
                home = self._component[mask.bit_length() - 1]
                able = [c for c in range(len(self._cliques)) if self._homes[c] == home]
                meeting = min((self._cost(c, -1, mask), c) for c in able)
            self._meetings[mask] = meeting
        return meeting

    def plan(self, clique: int, towards: int, carried: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The separator towards the meeting, the attributes needed of the clique, and the neighbours that have to send
        something, with what; those that carry least first."""
        fixed = 0 if towards < 0 else self.near[clique][towards]
        needed, missing = fixed | carried & self._cliques[clique], carried & ~self._cliques[clique]
        branches = []
        for other, separator in self.near[clique].items():
            if other != towards and missing & self._beyond[other, clique]:
                branches.append((other, missing & self._beyond[other, clique]))
                needed |= separator
        return fixed, needed, sorted(branches, key=lambda b: (self.size(b[1]), b[0]))

    def _cost(self, clique: int, towards: int, carried: int) -> float:
        """Multiplications and cells written, roughly, until a clique knows what it carries; -1: the meeting itself."""
        key = (clique, towards, carried)
        cost = self._costs.get(key)
        if cost is None:
            fixed, needed, branches = self.plan(clique, towards, carried)
            keep = fixed | carried
            cost = _WRITTEN * float(self.size(needed))
            for k, (other, beyond) in enumerate(branches):
                later = keep
                for after, _ in branches[k + 1 :]:
                    later |= self.near[clique][after]
                cost += self.size(needed) * self.size(beyond) + self._cost(other, clique, beyond)
                needed = needed & later | beyond
                cost += _WRITTEN * self.size(needed)
            self._costs[key] = cost
        return cost

    def _side(self, clique: int, towards: int) -> int:
        """The attributes on this side of an edge that are not in its separator."""
        key = (clique, towards)
        if key not in self._beyond:
            mask = self._cliques[clique]
            for other in self.near[clique]:
                if other != towards:
                    mask |= self._side(other, clique) | self.near[clique][other]
            self._beyond[key] = mask & ~self.near[clique][towards]
        return self._beyond[key]

    def _components(self) -> list[int]:
        """The component of each clique, named by one of its cliques."""
        homes = list(range(len(self._cliques)))
        for c in range(len(self._cliques) - 1, -1, -1):  # parents have larger numbers
            for other in self.near[c]:
                if other < c:
                    homes[other] = homes[c]
        return homes


@lru_cache(maxsize=8)
def routes_of(tree: JunctionTree) -> Routes:
    """The ways through a tree, with all that was found out about them before: many rounds leave the tree as it is."""
    return Routes(tree)

"""Marginals across cliques, exactly: variable elimination on a calibrated junction tree.

Attributes that no clique has together meet in one: every branch sends p(what it carries | its separator) towards that
clique, where the branches are multiplied in, one after the other, and what nobody needs is summed away. Messages are
shared by all marginals that need them; for three attributes in three branches each carries a single one. Costs are
known before anything is computed, so that the meeting clique is the cheapest, and a caller may decline.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.junction import JunctionTree
from openprior.models.graphical.propagation import offsets, sum_down
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Elimination"]

Floats = NDArray[np.float64]

_ROOM = 1 << 23
"""Cells of one intermediate table; a larger one is computed in slices."""
_REMEMBERED = 1 << 25
"""Cells of all messages that are kept for other marginals."""
_WORTHWHILE = 256
"""Multiplications from which on a matrix product is worth its call."""
_NOTHING = 1e-290
"""Below this a separator's cell is as good as impossible: what it carries cannot be seen in any answer."""


class Elimination:
    """The marginals of one calibrated tree: `tables` has p(clique), with axes in the order of `axes`."""

    def __init__(self, tree: JunctionTree, axes: Sequence[Marginal], tables: Sequence[Floats]) -> None:
        self._domain: Domain = tree.domain
        self._bit = {a: 1 << i for i, a in enumerate(tree.domain)}
        self._sizes = tree.domain.shape
        self._names = tree.domain.attributes
        self._cliques = [self._mask(c) for c in tree.cliques]
        self._axes, self._tables = axes, tables
        self._near: list[dict[int, int]] = [{} for _ in tree.cliques]
        for c, parent in enumerate(tree.parents):
            if parent >= 0:
                self._near[c][parent] = self._near[parent][c] = self._mask(tree.separators[c])
        self._beyond: dict[tuple[int, int], int] = {}
        for c, near in enumerate(self._near):
            for other in near:
                self._side(other, c)
        self._component = self._components()
        self._reduced: list[dict[int, Floats]] = [{} for _ in tree.cliques]
        self._messages: dict[tuple[int, int, int], Floats] = {}
        self._room = _REMEMBERED
        self._costs: dict[tuple[int, int, int], float] = {}
        self._products: dict[int, int] = {}
        self._meetings: dict[int, tuple[float, int]] = {}

    # Before anything is computed.

    def cost(self, marginal: Marginal) -> float:
        """Multiplications that the marginal takes, roughly; 0 if one clique has it."""
        return sum(self._best(part)[0] for part in self._parts(self._mask(marginal)))

    # The marginals.

    def marginal(self, marginal: Marginal) -> Floats:
        """Its probabilities, flat in C order; attributes of different components are independent."""
        parts = []
        for mask in self._parts(self._mask(marginal)):
            root = self._best(mask)[1]
            parts.append((mask, self._gather(root, -1, mask)))
        if len(parts) == 1:
            return parts[0][1]
        result = np.ones([1] * len(marginal))
        for mask, values in parts:
            result = result * values.reshape(
                [self._domain[a] if self._bit[a] & mask else 1 for a in marginal]
            )
        return np.ascontiguousarray(result).reshape(-1)

    def _gather(self, clique: int, towards: int, carried: int) -> Floats:
        """p(carried), or Σ p(separator, carried), at a clique; flat, the separator's cells first, then the carried."""
        fixed, needed, branches = self._plan(clique, towards, carried)
        messages = [
            (self._near[clique][other], beyond, self._message(other, clique, beyond))
            for other, beyond in branches
        ]
        front = self._indices(fixed)
        return self._multiply(
            self._reduce(clique, needed), self._indices(needed), messages, front, fixed | carried
        )

    def _multiply(
        self,
        table: Floats,
        axes: list[int],
        messages: list[tuple[int, int, Floats]],
        front: list[int],
        wanted: int,
    ) -> Floats:
        """Multiply the messages in, smallest first; sum away what neither the result nor a later message needs."""
        if not messages:
            rest = sorted(a for a in axes if a not in front)
            return self._order(table, axes, [*front, *rest])
        (separator, beyond, message), *later = messages
        keep = wanted
        for s, _, _ in later:
            keep |= s
        kept = [a for a in axes if keep >> a & 1]
        width = message.shape[1]
        cells = math.prod(self._sizes[a] for a in kept)
        if cells * width > _ROOM and width > 1 and later:
            return self._in_slices(table, axes, messages, front, wanted)
        out, left = self._contract(table, axes, separator, message, kept)
        return self._multiply(out, [*left, *self._indices(beyond)], later, front, wanted)

    def _in_slices(
        self,
        table: Floats,
        axes: list[int],
        messages: list[tuple[int, int, Floats]],
        front: list[int],
        wanted: int,
    ) -> Floats:
        """The same, for a few values of what the first message carries at a time."""
        (separator, beyond, message), *later = messages
        width = message.shape[1]
        carried = [a for a in self._indices(wanted) if a not in front]
        shape = [self._sizes[a] for a in (*front, *carried)]
        mine = self._indices(beyond)
        out: Floats | None = None
        for column in range(width):
            one = np.ascontiguousarray(message[:, column : column + 1])
            part = self._multiply(table, axes, [(separator, 0, one), *later], front, wanted & ~beyond)
            if out is None:
                out = np.zeros(shape)
            place = dict(zip(mine, np.unravel_index(column, [self._sizes[a] for a in mine]), strict=True))
            index = tuple(place.get(a, slice(None)) for a in (*front, *carried))
            out[index] = part.reshape([self._sizes[a] for a in (*front, *carried) if a not in place])
        assert out is not None
        return out.reshape(-1)

    def _contract(
        self, table: Floats, axes: list[int], separator: int, message: Floats, kept: list[int]
    ) -> tuple[Floats, list[int]]:
        """Σ table[axes]·message[separator, carried] over what is not kept; flat, and its axes before the carried ones.

        A matrix product for each cell of what the separator keeps, or, where those would be tiny, a plain loop.
        """
        from openprior.models.graphical.messages import contract

        width = message.shape[1]
        edge = self._indices(separator)
        shared, summed = [a for a in edge if a in kept], [a for a in edge if a not in kept]
        own = [a for a in kept if not separator >> a & 1]
        batch, rows, inner = (math.prod(self._sizes[a] for a in group) for group in (shared, own, summed))
        if rows * inner * width >= _WORTHWHILE:
            left = self._order(table, axes, [*shared, *own, *summed]).reshape(batch, rows, inner)
            right = message.reshape([self._sizes[a] for a in edge] + [width])
            right = right.transpose([*(edge.index(a) for a in (*shared, *summed)), len(edge)])
            return (left @ right.reshape(batch, inner, width)).reshape(-1), [*shared, *own]
        out = np.zeros((batch * rows, width))
        here, there, result = ([self._names[a] for a in group] for group in (axes, edge, kept))
        contract(table, offsets(self._domain, here, there), offsets(self._domain, here, result), message, out)
        return out.reshape(-1), kept

    def _message(self, clique: int, towards: int, carried: int) -> Floats:
        """p(carried | separator) from one side of an edge: one row a cell of the separator."""
        key = (clique, towards, carried)
        found = self._messages.get(key)
        if found is None:
            separator = self._near[clique][towards]
            joint = self._gather(clique, towards, carried)
            base = self._reduce(clique, separator).reshape(-1)
            scale = np.zeros(len(base))
            np.divide(1.0, base, out=scale, where=base > _NOTHING)
            found = joint.reshape(len(base), -1) * scale[:, None]
            if found.size <= self._room:
                self._room -= found.size
                self._messages[key] = found
        return found

    def _reduce(self, clique: int, mask: int) -> Floats:
        """The marginal of some of a clique's attributes, flat, in the domain's order."""
        found = self._reduced[clique].get(mask)
        if found is None:
            # From the smallest table that is there already and has it all; the clique's own is in another order.
            above = [m for m in self._reduced[clique] if m & mask == mask]
            if above:
                source = min(above, key=self._size)
                axes, table = self._indices(source), self._reduced[clique][source]
            else:
                axes, table = [self._position(a) for a in self._axes[clique]], self._tables[clique]
            found = sum_down(
                table.reshape(-1), self._domain, [self._names[a] for a in axes], self._named(mask)
            )
            self._reduced[clique][mask] = found
        return found

    # Planning.

    def _best(self, mask: int) -> tuple[float, int]:
        """The cheapest clique for these attributes (of one component) to meet in, and the price."""
        found = self._meetings.get(mask)
        if found is None:
            inside = [c for c, clique in enumerate(self._cliques) if clique & mask == mask]
            if inside:
                found = 0.0, min(inside, key=lambda c: self._tables[c].size)
            else:
                home = self._component[mask.bit_length() - 1]
                able = [c for c in range(len(self._cliques)) if self._of[c] == home]
                found = min((self._cost(c, -1, mask), c) for c in able)
            self._meetings[mask] = found
        return found

    def _cost(self, clique: int, towards: int, carried: int) -> float:
        key = (clique, towards, carried)
        found = self._costs.get(key)
        if found is None:
            fixed, needed, branches = self._plan(clique, towards, carried)
            keep = fixed | carried
            found = float(self._size(needed))
            for k, (other, beyond) in enumerate(branches):
                later = keep
                for after, _ in branches[k + 1 :]:
                    later |= self._near[clique][after]
                found += self._size(needed) * self._size(beyond) + self._cost(other, clique, beyond)
                needed = needed & later | beyond
            self._costs[key] = found
        return found

    def _plan(self, clique: int, towards: int, carried: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The separator towards the meeting, the attributes needed of the clique, and the neighbours that have to send
        something, with what; those that carry least first."""
        fixed = 0 if towards < 0 else self._near[clique][towards]
        needed, missing = fixed | carried & self._cliques[clique], carried & ~self._cliques[clique]
        branches = []
        for other, separator in self._near[clique].items():
            if other != towards and missing & self._beyond[other, clique]:
                branches.append((other, missing & self._beyond[other, clique]))
                needed |= separator
        return fixed, needed, sorted(branches, key=lambda b: (self._size(b[1]), b[0]))

    def _side(self, clique: int, towards: int) -> int:
        """The attributes on this side of an edge that are not in its separator."""
        key = (clique, towards)
        if key not in self._beyond:
            mask = self._cliques[clique]
            for other in self._near[clique]:
                if other != towards:
                    mask |= self._side(other, clique) | self._near[clique][other]
            self._beyond[key] = mask & ~self._near[clique][towards]
        return self._beyond[key]

    def _components(self) -> list[int]:
        """The component of each attribute, named by one of its cliques."""
        self._of = list(range(len(self._cliques)))
        for c in range(len(self._cliques) - 1, -1, -1):  # parents have larger numbers
            for other in self._near[c]:
                if other < c:
                    self._of[other] = self._of[c]
        return [
            self._of[next(c for c, mask in enumerate(self._cliques) if mask >> i & 1)]
            for i in range(len(self._sizes))
        ]

    def _parts(self, mask: int) -> list[int]:
        parts: dict[int, int] = {}
        for i in self._indices(mask):
            parts[self._component[i]] = parts.get(self._component[i], 0) | 1 << i
        return list(parts.values())

    # Small change.

    def _mask(self, attributes: Iterable[str]) -> int:
        return sum(self._bit[a] for a in attributes)

    def _named(self, mask: int) -> Marginal:
        return tuple(self._names[i] for i in self._indices(mask))

    def _position(self, attribute: str) -> int:
        return self._bit[attribute].bit_length() - 1

    def _indices(self, mask: int) -> list[int]:
        return [i for i in range(len(self._sizes)) if mask >> i & 1]

    def _size(self, mask: int) -> int:
        found = self._products.get(mask)
        if found is None:
            found = self._products[mask] = math.prod(s for i, s in enumerate(self._sizes) if mask >> i & 1)
        return found

    def _order(self, flat: Floats, axes: list[int], wanted: list[int]) -> Floats:
        if axes == wanted:
            return flat
        table = flat.reshape([self._sizes[a] for a in axes])
        rest = [a for a in wanted if a in axes]
        return np.ascontiguousarray(table.transpose([axes.index(a) for a in rest])).reshape(-1)

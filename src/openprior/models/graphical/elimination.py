"""Marginals across cliques, exactly: variable elimination on a calibrated junction tree.

Attributes that no clique has together meet in one: every branch sends p(what it carries | its separator) towards that
clique, where the branches are multiplied in, one after the other, and what nobody needs is summed away. Messages are
shared by all marginals that need them; for three attributes in three branches each carries a single one. Costs are
known before anything is computed (routes.py), so that the meeting clique is the cheapest, and a caller may decline.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.junction import JunctionTree
from openprior.models.graphical.marginalisation import sum_down
from openprior.models.graphical.routes import routes_of
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Elimination"]

Floats = NDArray[np.float64]

_ROOM = 1 << 23
"""Cells of one intermediate table; a larger one is computed in slices."""
_REMEMBERED = 1 << 25
"""Cells of all messages, and of tables in other orders, that are kept for other marginals."""
_LARGE = 1 << 14
"""Cells from which on a compiled loop rearranges a table faster than NumPy does."""
_NOTHING = 1e-290
"""Below this a separator's cell is as good as impossible: what it carries cannot be seen in any answer."""


class Elimination:
    """The marginals of one calibrated tree: `tables` has p(clique), with axes in the order of `axes`."""

    def __init__(self, tree: JunctionTree, axes: Sequence[Marginal], tables: Sequence[Floats]) -> None:
        self._domain: Domain = tree.domain
        self._routes = routes_of(tree)
        self._sizes, self._names = tree.domain.shape, tree.domain.attributes
        self._axes, self._tables = axes, tables
        self._reduced: list[dict[int, Floats]] = [{} for _ in tree.cliques]
        self._messages: dict[tuple[int, int, int], Floats] = {}
        self._ordered: dict[int, dict[tuple[int, ...], Floats]] = {}
        """Of every table in `_reduced`, by its id, which stays as long as that is kept: copies in other orders."""
        self._room = _REMEMBERED

    def cost(self, marginal: Marginal) -> float:
        """Multiplications that the marginal takes, roughly, each cell written counted as ten; 0 if one clique has it.
        Computes nothing."""
        routes = self._routes
        return sum(routes.meeting(part)[0] for part in routes.parts(routes.mask(marginal)))

    def marginal(self, marginal: Marginal) -> Floats:
        """Its probabilities, flat in C order; attributes of different components are independent."""
        routes, parts = self._routes, []
        for mask in routes.parts(routes.mask(marginal)):
            _, clique = routes.meeting(mask)
            parts.append((mask, self._gather(clique, -1, mask)))
        if len(parts) == 1:
            return parts[0][1]
        result = np.ones([1] * len(marginal))
        for mask, values in parts:
            inside = routes.named(mask)
            result = result * values.reshape([self._domain[a] if a in inside else 1 for a in marginal])
        return np.ascontiguousarray(result).reshape(-1)

    def _gather(self, clique: int, towards: int, carried: int) -> Floats:
        """p(carried), or Σ p(separator, carried), at a clique; flat, the separator's cells first, then the carried."""
        routes = self._routes
        fixed, needed, branches = routes.plan(clique, towards, carried)
        messages = [
            (routes.near[clique][other], beyond, self._message(other, clique, beyond))
            for other, beyond in branches
        ]
        table, axes = self._reduce(clique, needed), routes.indices(needed)
        return self._multiply(table, axes, messages, routes.indices(fixed), fixed | carried)

    def _multiply(
        self,
        table: Floats,
        axes: list[int],
        messages: list[tuple[int, int, Floats]],
        front: list[int],
        target: int,
    ) -> Floats:
        """Multiply the messages in, smallest first; sum away what neither the target nor a later message needs."""
        if not messages:
            rest = sorted(a for a in axes if a not in front)
            return self._order(table, axes, [*front, *rest])
        (separator, beyond, message), *later = messages
        keep = target
        for s, _, _ in later:
            keep |= s
        kept = [a for a in axes if keep >> a & 1]
        width = message.shape[1]
        cells = math.prod(self._sizes[a] for a in kept)
        if cells * width > _ROOM and width > 1 and later:
            return self._in_slices(table, axes, messages, front, target)
        out, left = self._contract(table, axes, separator, message, kept)
        return self._multiply(out, [*left, *self._routes.indices(beyond)], later, front, target)

    def _in_slices(
        self,
        table: Floats,
        axes: list[int],
        messages: list[tuple[int, int, Floats]],
        front: list[int],
        target: int,
    ) -> Floats:
        """The same, one value of what the first message carries at a time."""
        (separator, beyond, message), *later = messages
        width = message.shape[1]
        carried = [a for a in self._routes.indices(target) if a not in front]
        shape = [self._sizes[a] for a in (*front, *carried)]
        mine = self._routes.indices(beyond)
        out: Floats | None = None
        for column in range(width):
            one = np.ascontiguousarray(message[:, column : column + 1])
            part = self._multiply(table, axes, [(separator, 0, one), *later], front, target & ~beyond)
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
        """Σ table[axes]·message[separator, carried] over what is not kept, a product of matrices for each cell of what
        the separator keeps; flat, and its axes before the carried ones."""
        from openprior.models.graphical.products import products

        width = message.shape[1]
        edge = self._routes.indices(separator)
        shared, summed = [a for a in edge if a in kept], [a for a in edge if a not in kept]
        own = [a for a in kept if not separator >> a & 1]
        batch, rows, inner = (math.prod(self._sizes[a] for a in group) for group in (shared, own, summed))
        left = self._order(table, axes, [*shared, *own, *summed]).reshape(batch, rows, inner)
        order = [*shared, *summed]
        if order == edge:
            right = message
        else:
            sizes = [self._sizes[a] for a in edge]
            rearranged = message.reshape([*sizes, width]).transpose(
                [*(edge.index(a) for a in order), len(edge)]
            )
            right = np.ascontiguousarray(rearranged)
        out = np.empty((batch, rows, width))
        products(left, right.reshape(batch, inner, width), out)
        return out.reshape(-1), [*shared, *own]

    def _message(self, clique: int, towards: int, carried: int) -> Floats:
        """p(carried | separator) from one side of an edge: one row per cell of the separator."""
        key = (clique, towards, carried)
        message = self._messages.get(key)
        if message is None:
            separator = self._routes.near[clique][towards]
            joint = self._gather(clique, towards, carried)
            base = self._reduce(clique, separator).reshape(-1)
            scale = np.zeros(len(base))
            np.divide(1.0, base, out=scale, where=base > _NOTHING)
            message = joint.reshape(len(base), -1) * scale[:, None]
            if message.size <= self._room:
                self._room -= message.size
                self._messages[key] = message
        return message

    def _reduce(self, clique: int, mask: int) -> Floats:
        """The marginal of some of a clique's attributes, flat, in the domain's order."""
        reduced = self._reduced[clique].get(mask)
        if reduced is None:
            # From the smallest table that is there already and has it all; the clique's own is in another order.
            above = [m for m in self._reduced[clique] if m & mask == mask]
            if above:
                source = min(above, key=self._routes.size)
                axes, table = self._routes.named(source), self._reduced[clique][source]
            else:
                axes, table = self._axes[clique], self._tables[clique]
            reduced = sum_down(table.reshape(-1), self._domain, axes, self._routes.named(mask))
            self._reduced[clique][mask] = reduced
            self._ordered[id(reduced)] = {}
        return reduced

    def _order(self, flat: Floats, axes: list[int], target: list[int]) -> Floats:
        """A flat table with its axes in the target's order."""
        if axes == target:
            return flat
        kept = self._ordered.get(id(flat))
        if kept is not None and (ordered := kept.get(tuple(target))) is not None:
            return ordered
        if len(flat) < _LARGE:
            table = flat.reshape([self._sizes[a] for a in axes])
            ordered = np.ascontiguousarray(table.transpose([axes.index(a) for a in target])).reshape(-1)
        else:
            here, there = tuple(self._names[a] for a in axes), tuple(self._names[a] for a in target)
            ordered = sum_down(flat, self._domain, here, there)
        if kept is not None and ordered.size <= self._room:
            self._room -= ordered.size
            kept[tuple(target)] = ordered
        return ordered

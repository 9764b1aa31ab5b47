"""A graphical model where some columns have only some values: the others are taken out of one clique after another.

p(x) is the product of p(clique | separator) over the tree. Cells that are not allowed become 0; going up, each clique
tells its parent how much is left for every cell of their separator; going down, each learns how much really came. Two
passes, exact, and the result is a calibrated tree again.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.junction import JunctionTree
from openprior.questions.workload import Marginal

__all__ = ["restrict_tables"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def restrict_tables(
    tree: JunctionTree, axes: Sequence[Marginal], tables: Sequence[Floats], allowed: Mapping[str, Flags]
) -> tuple[list[Floats], float]:
    """The tables of the cliques given that only these codes are allowed, and the probability that they are.

    `tables` are calibrated and sum to 1, each with its separator's axes first. Where nothing is left the probability is
    0, and the tables mean nothing.
    """
    left: list[Floats] = []
    messages: list[Floats] = [np.zeros(0)] * len(tables)
    share = 1.0
    for c, table in enumerate(tables):
        separator = tree.separators[c]
        inside = tuple(range(len(separator), table.ndim))
        kept = _divided(table, table.sum(axis=inside))
        for a in axes[c]:
            if a in allowed:
                kept = kept * _along(allowed[a].astype(np.float64), (a,), axes[c])
        for child, parent in enumerate(tree.parents[:c]):
            if parent == c:
                kept = kept * _along(messages[child], tree.separators[child], axes[c])
        left.append(kept)
        messages[c] = kept.sum(axis=inside)
        if tree.parents[c] < 0:
            share *= float(messages[c])
    for c in range(len(tables) - 1, -1, -1):
        parent = tree.parents[c]
        if parent < 0:
            continue
        came = _summed(left[parent], axes[parent], tree.separators[c])
        left[c] = _divided(left[c], messages[c]) * _along(came, tree.separators[c], axes[c])
    return left, share


def _along(values: Floats, names: Sequence[str], axes: Sequence[str]) -> Floats:
    """Values over some names, shaped to be multiplied with a table over these axes."""
    order = [a for a in axes if a in names]
    moved = values.transpose([list(names).index(a) for a in order])
    sizes = iter(moved.shape)
    return moved.reshape([next(sizes) if a in names else 1 for a in axes])


def _summed(table: Floats, axes: Sequence[str], names: Sequence[str]) -> Floats:
    """The table's sums over everything but these names, in their order."""
    sums = np.asarray(table.sum(axis=tuple(i for i, a in enumerate(axes) if a not in names)))
    order = [a for a in axes if a in names]
    return sums.transpose([order.index(a) for a in names])


def _divided(table: Floats, base: Floats) -> Floats:
    """The table given its leading axes; 0 where these are impossible."""
    spread = np.asarray(base).reshape(np.shape(base) + (1,) * (table.ndim - np.ndim(base)))
    return np.divide(table, spread, out=np.zeros_like(table), where=spread > 0)

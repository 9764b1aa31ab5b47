"""A graphical model as a prior: its junction tree, read from the root, is a Bayesian network.

Every clique's columns that its parent does not have are drawn one after the other, given the separator and those
before; so fresh draws follow the model exactly, up to single precision and a little of each column's own marginal,
which keeps every row possible.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.models.graphical.model import GraphicalModel
from openprior.models.prior.conditionals import Conditional
from openprior.models.prior.network import flatten
from openprior.models.prior.prior import Prior, of_networks

__all__ = ["graphical_prior"]

_ELSEWHERE = 1e-4
"""Probability with which a value is drawn whatever the others are."""


def graphical_prior(model: GraphicalModel) -> Prior:
    """A prior whose draws are rows of the model; it has no public rows."""
    domain = model.domain
    order, conditionals = [], {}
    for c in range(len(model.tree.cliques) - 1, -1, -1):
        columns = [domain.position(a) for a in model.axes[c]]
        for place in range(len(model.tree.separators[c]), len(columns)):
            joint = model.tables[c].sum(axis=tuple(range(place + 1, len(columns))))
            own = columns[place]
            order.append(own)
            conditionals[own] = _given(joint.reshape(-1, domain.shape[own]), tuple(columns[:place]))
    sizes = np.array(domain.shape, np.int64)
    networks = flatten([np.array(order, np.int64)], [[conditionals[a]] for a in range(len(sizes))], sizes)
    return of_networks(sizes, networks)


def _given(joint: NDArray[np.float64], parents: tuple[int, ...]) -> Conditional:
    """The distribution of the last column for every combination of those before."""
    overall = joint.sum(axis=0)
    overall /= overall.sum()
    mass = joint.sum(axis=1, keepdims=True)
    table = np.where(mass > 0, joint / np.where(mass > 0, mass, 1.0), overall)
    table = (1 - _ELSEWHERE) * table + _ELSEWHERE * overall
    return Conditional(parents, np.arange(len(table), dtype=np.int32), table.astype(np.float32))

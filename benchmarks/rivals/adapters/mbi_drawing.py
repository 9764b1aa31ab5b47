"""Rows from the models of mbi 1.1.0, which SmartNoise and OpenDP are bound to and whose own drawing is broken.

Its `synthetic_data` gives the rows of a group the values of every new column in the same order, so that columns that
are independent given their common parents come out sorted alike, and it conditions on the cliques that were measured
and not on those of the junction tree. mbi 2.0 has mended both (pull request 145 of ryan112358/mbi). This draws from
the same fitted model without either fault, so that a tool is judged by what it has learned.
"""

from typing import Any

import numpy as np
from mbi import Dataset, MarkovRandomField, junction_tree, marginal_oracles


def synthetic_data(model: Any, rows: int | None = None, method: str = "round") -> Dataset:
    """Column by column given its neighbours among those before it, each group's counts rounded at random."""
    assert method == "round"
    total, domain = max(1, int(rows or model.total)), model.domain
    tree, elimination = junction_tree.make_junction_tree(domain, [tuple(clique) for clique in model.cliques])
    marginals = marginal_oracles.message_passing_stable(model.potentials.expand(list(tree.nodes)))
    data: dict[str, Any] = {}
    for name in reversed(elimination):
        near = set().union(*(clique for clique in tree.nodes if name in clique))
        parents = tuple(other for other in data if other in near)
        joint = marginals.project((*parents, name)).datavector(flatten=False)
        table = np.asarray(joint, dtype=np.float64).reshape(-1, domain[name])
        if parents:
            sizes = tuple(domain[parent] for parent in parents)
            group = np.ravel_multi_index(tuple(data[parent] for parent in parents), sizes)
        else:
            group = np.zeros(total, dtype=np.int64)
        data[name] = _drawn(table, group)
    return Dataset(data, domain)


def _drawn(table: Any, group: Any) -> Any:
    """A value for each row by its group's line of the table: of n rows, each value gets its share of n, rounded."""
    table = np.where(table.sum(axis=1, keepdims=True) > 0, table, 1.0)  # a line of zeros says nothing
    upper = np.cumsum(table, axis=1)
    upper /= upper[:, -1:]
    here, inverse, counts = np.unique(group, return_inverse=True, return_counts=True)
    order = np.lexsort((np.random.rand(group.size), inverse))  # noqa: NPY002 - as mbi does, from the global generator
    rank = np.empty(group.size, dtype=np.int64)
    rank[order] = np.arange(group.size) - np.repeat(np.cumsum(counts) - counts, counts)
    place = (rank + np.random.rand(group.size)) / counts[inverse]  # noqa: NPY002
    # All groups at once: the line of group i ends at i + 1.
    ends = (upper[here] + np.arange(here.size)[:, None]).ravel()
    value = np.searchsorted(ends, inverse + place, side="right") - inverse * table.shape[1]
    return np.clip(value, 0, table.shape[1] - 1)


def mend() -> None:
    """From now on models draw their rows in this way."""
    MarkovRandomField.synthetic_data = synthetic_data

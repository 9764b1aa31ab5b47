"""Bayesian networks with backed-off conditionals: the prior for dependence that is strong, even nearly functional.

Each attribute is drawn given a few parents that come before it in some order: p(x) = Π p(x_a | parents), with
conditionals that fall back to fewer parents where rows are few, so no value is impossible (conditionals.py). Parents
are those of the highest leave-one-out likelihood, which costs no held-out rows. One order is arbitrary, so several are
tried at random and the best are averaged; what a parent is worth is worked out once for all orders (parents.py).

Conditionals are flat arrays: an index over all contexts of the parents says which distribution is meant, so drawing and
weighing are single lookups. Networks that agree on an attribute share its arrays.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import workers
from openprior.models.prior.conditionals import Conditional, Conditionals
from openprior.models.prior.contexts import logs_of
from openprior.models.prior.parents import PARENTS, ParentSearch
from openprior.progress import Phase

__all__ = [
    "Networks",
    "Structure",
    "fit_networks",
    "flatten",
    "learn_structures",
    "log_density",
    "networks_of",
]

_ROWS = 1 << 14
"""Rows that structures are learnt from; the conditionals use all of them."""
_ORDERS = 3
"""Random orders that are tried for every network."""

Codes = NDArray[np.uint16]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Structure:
    """An order of the attributes and the parents of each."""

    order: Ints
    parents: list[list[int]]


@dataclass(frozen=True, eq=False)
class Networks:
    """Several networks in flat arrays, [network, attribute, ...]."""

    order: Ints
    parents: Ints
    """-1 where there is none."""
    strides: Ints
    index_start: Ints
    table_start: Ints
    index: NDArray[np.int32]
    table: NDArray[np.float32]
    children: Ints
    """[network, attribute, child]; -1 where there is none."""

    def __len__(self) -> int:
        return len(self.order)


def fit_networks(codes: Codes, sizes: Ints, count: int, rng: np.random.Generator) -> Networks:
    """So many networks, fitted to rows of codes [rows, attributes]."""
    return networks_of(codes, sizes, learn_structures(codes, sizes, count, rng))


def learn_structures(
    codes: Codes, sizes: Ints, count: int, rng: np.random.Generator, work: Phase | None = None
) -> list[Structure]:
    """The best `count` of three times as many random orders.

    Each attribute is a step of the work, if progress is to be told of it.
    """
    rows, attributes = codes.shape
    some = codes if rows <= _ROWS else codes[rng.choice(rows, _ROWS, replace=False)]
    columns, logs = np.ascontiguousarray(some.T), logs_of(len(some))
    orders = [rng.permutation(attributes) for _ in range(_ORDERS * count)]

    def search(a: int) -> list[tuple[list[int], float]]:
        known = ParentSearch(a, columns, sizes, logs)
        return [known.best(order[: int(np.argmax(order == a))]) for order in orders]

    chosen = []
    with ThreadPoolExecutor(workers()) as pool:
        for of_attribute in pool.map(search, range(attributes)):
            chosen.append(of_attribute)
            if work is not None:
                work.advance()
    totals = [sum(chosen[a][i][1] for a in range(attributes)) for i in range(len(orders))]
    best = sorted(range(len(orders)), key=lambda i: -totals[i])[:count]
    return [Structure(orders[i], [chosen[a][i][0] for a in range(attributes)]) for i in best]


def networks_of(codes: Codes, sizes: Ints, structures: Sequence[Structure]) -> Networks:
    """Networks of these structures with the conditionals of all rows."""
    columns = np.ascontiguousarray(codes.T)

    def fit(a: int) -> list[Conditional]:
        conditionals = Conditionals(columns, sizes, a)
        wanted = [tuple(structure.parents[a]) for structure in structures]
        made = {parents: conditionals.given(parents) for parents in sorted(set(wanted))}
        return [made[parents] for parents in wanted]

    with ThreadPoolExecutor(workers()) as pool:
        parts = list(pool.map(fit, range(len(sizes))))
    return flatten([structure.order for structure in structures], parts, sizes)


def flatten(orders: list[Ints], parts: list[list[Conditional]], sizes: Ints) -> Networks:
    """Networks with these orders and, for every attribute, these conditionals, one of each network."""
    count, attributes = len(orders), len(sizes)
    most = max(PARENTS, *(len(part.parents) for of_networks in parts for part in of_networks))
    parents = np.full((count, attributes, most), -1, np.int64)
    strides = np.zeros((count, attributes, most), np.int64)
    index_start, table_start = np.zeros((2, count, attributes), np.int64)
    children: list[list[list[int]]] = [[[] for _ in sizes] for _ in range(count)]
    indices, tables, at_index, at_table = [], [], 0, 0
    for a, of_networks in enumerate(parts):
        places: dict[tuple[int, ...], tuple[int, int]] = {}
        for k, part in enumerate(of_networks):
            stride = len(part.index)
            for level, b in enumerate(part.parents):
                stride //= int(sizes[b])
                parents[k, a, level], strides[k, a, level] = b, stride
                children[k][b].append(a)
            if part.parents not in places:
                places[part.parents] = at_index, at_table
                indices.append(part.index)
                tables.append(part.table.reshape(-1))
                at_index += len(part.index)
                at_table += part.table.size
            index_start[k, a], table_start[k, a] = places[part.parents]
    widest = max(1, *(len(c) for of_network in children for c in of_network))
    flat_children = np.full((count, attributes, widest), -1, np.int64)
    for k, of_network in enumerate(children):
        for a, own in enumerate(of_network):
            flat_children[k, a, : len(own)] = own
    return Networks(
        np.array(orders, np.int64),
        parents,
        strides,
        index_start,
        table_start,
        np.concatenate(indices),
        np.concatenate(tables),
        flat_children,
    )


def log_density(networks: Networks, codes: NDArray[np.uint16], sizes: Ints) -> Floats:
    """log of the mean of the networks' densities, for each row."""
    n = networks
    each = np.zeros((len(n), len(codes)))
    for k in range(len(n)):
        for a, size in enumerate(sizes):
            context = np.zeros(len(codes), np.int64)
            for b, stride in zip(n.parents[k, a], n.strides[k, a], strict=True):
                if b >= 0:
                    context += codes[:, b] * stride
            row = n.index[n.index_start[k, a] + context].astype(np.int64)
            each[k] += np.log(n.table[n.table_start[k, a] + row * size + codes[:, a]])
    peak = each.max(axis=0)
    return np.asarray(peak + np.log(np.exp(each - peak).mean(axis=0)))

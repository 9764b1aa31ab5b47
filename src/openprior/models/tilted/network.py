"""Bayesian networks with backed-off conditionals: the prior for dependence that is strong, even nearly functional.

Each attribute is drawn given a few parents that come before it in some order: p(x) = Π p(x_a | parents). A conditional
shrinks level by level, p(v | b₁..b_l) = (count + s_l·p(v | b₁..b_{l−1})) / (N + s_l), down to the uniform
distribution, so a context never seen falls back to a shorter one and no value is impossible. Parents and strengths s
are those of the highest leave-one-out likelihood, which costs no held-out rows. One order is arbitrary, so several
are tried at random and the best are averaged.

A conditional's distributions are rows of one flat array, and an index over all contexts of the parents says which row
is meant, with the falling back already done: drawing and weighing are single lookups.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from openprior.counting.local import workers
from openprior.progress import Phase

__all__ = ["Networks", "fit_networks", "log_density", "orders_tried"]

_STRENGTHS = np.array([0.3, 1.0, 3.0, 10.0, 30.0, 100.0])
_PARENTS = 4
_CONTEXTS = 1 << 18
"""Largest number of contexts of one attribute, seen or not."""
_NUMBERS = 1 << 19
"""Largest number of probabilities of one attribute while structures are learnt; the conditionals may have four times
as many. Both bounds keep the scratch space small, whatever the columns' sizes."""
_GAIN = 1e-3
"""A parent must bring so much likelihood per row."""
_ROWS = 1 << 14
"""Rows that structures are learnt from; the conditionals use all of them."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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


def orders_tried(count: int) -> int:
    """How many random orders are tried for so many networks."""
    return 3 * count


def fit_networks(
    codes: NDArray[np.uint16],
    sizes: Ints,
    count: int,
    rng: np.random.Generator,
    work: Phase | None = None,
) -> Networks:
    """The best `count` of three times as many random orders, fitted to rows of codes [rows, attributes].

    Each order is a step of the work, if progress is to be told of it.
    """
    rows, attributes = codes.shape
    some = codes if rows <= _ROWS else codes[rng.choice(rows, _ROWS, replace=False)]
    columns = np.ascontiguousarray(some.T)
    orders = [rng.permutation(attributes) for _ in range(orders_tried(count))]
    with ThreadPoolExecutor(workers()) as pool:
        structures = []
        for structure in pool.map(lambda order: _learn_structure(columns, sizes, order), orders):
            structures.append(structure)
            if work is not None:
                work.advance()
        best = sorted(structures, key=lambda structure: -structure[0])[:count]
        every = np.ascontiguousarray(codes.T)
        parts = list(
            pool.map(lambda s: [_conditional(every, sizes, a, s[2][a]) for a in range(attributes)], best)
        )
    return _flatten([order for _, order, _ in best], parts, sizes)


def _learn_structure(
    columns: NDArray[np.uint16], sizes: Ints, order: Ints
) -> tuple[float, Ints, list[list[int]]]:
    """The likelihood, the order and the parents of each attribute."""
    scratch = np.full(max(_NUMBERS, _CONTEXTS, int(sizes.max())), -1, np.int32)
    parents: list[list[int]] = [[] for _ in sizes]
    total = 0.0
    for i, a in enumerate(order):
        chosen, likelihood = _choose_parents(columns, sizes, order[:i], a, scratch, _STRENGTHS)
        parents[a] = [int(b) for b in chosen if b >= 0]
        total += likelihood
    return total, order, parents


@nb.njit(nogil=True, cache=True)
def _choose_parents(columns, sizes, before, a, scratch, strengths):  # type: ignore[no-untyped-def]
    """Add the parent with the highest leave-one-out likelihood while it gains enough."""
    rows = columns.shape[1]
    chosen = np.full(_PARENTS, -1, np.int64)
    ids, trial = np.zeros(rows, np.int32), np.empty(rows, np.int32)
    back = np.full(rows, 1.0 / sizes[a])
    likelihood, s = _best_strength(ids, 1, columns[a], sizes[a], back, scratch, strengths)
    _left_out(ids, 1, columns[a], sizes[a], back, scratch, s)
    contexts = 1
    groups = 1
    for level in range(_PARENTS):
        best, best_s, best_b = likelihood + _GAIN, 0.0, -1
        for j in range(len(before)):
            b = before[j]
            if sizes[b] < 2 or contexts * sizes[b] > _CONTEXTS or (chosen == b).any():
                continue
            n = _split(ids, columns[b], sizes[b], scratch, trial)
            if n * sizes[a] > _NUMBERS:
                continue
            value, s = _best_strength(trial, n, columns[a], sizes[a], back, scratch, strengths)
            if value > best:
                best, best_s, best_b = value, s, b
        if best_b < 0:
            break
        groups = _split(ids, columns[best_b], sizes[best_b], scratch, trial)
        ids[:] = trial
        _left_out(ids, groups, columns[a], sizes[a], back, scratch, best_s)
        chosen[level] = best_b
        contexts *= sizes[best_b]
        likelihood = best
    return chosen, likelihood


@nb.njit(nogil=True, cache=True)
def _split(ids, column, size, scratch, out):  # type: ignore[no-untyped-def]
    """Number the pairs (id, value) in the order they first occur; how many there are."""
    n = 0
    for r in range(len(ids)):
        key = ids[r] * size + column[r]
        if scratch[key] < 0:
            scratch[key] = n
            n += 1
        out[r] = scratch[key]
    for r in range(len(ids)):
        scratch[ids[r] * size + column[r]] = -1
    return n


@nb.njit(nogil=True, cache=True)
def _counts(ids, n, column, size, scratch):  # type: ignore[no-untyped-def]
    """Rows of each context, and rows of each (context, value) less one in scratch, where untouched cells have -1."""
    whole = np.zeros(n, np.int32)
    for r in range(len(ids)):
        whole[ids[r]] += 1
        scratch[ids[r] * size + column[r]] += 1
    return whole


@nb.njit(nogil=True, cache=True)
def _best_strength(ids, n, column, size, back, scratch, strengths):  # type: ignore[no-untyped-def]
    """The largest mean log of the leave-one-out probability, and its strength."""
    rows = len(ids)
    whole = _counts(ids, n, column, size, scratch)
    sums, products = np.zeros(len(strengths)), np.ones(len(strengths))
    for r in range(rows):
        above, below = scratch[ids[r] * size + column[r]], whole[ids[r]] - 1
        for k in range(len(strengths)):
            s = strengths[k]
            products[k] *= (above + s * back[r]) / (below + s)
        if r % 8 == 7:
            for k in range(len(strengths)):
                sums[k] += np.log(products[k])
                products[k] = 1.0
    for r in range(rows):
        scratch[ids[r] * size + column[r]] = -1
    best = 0
    for k in range(len(strengths)):
        sums[k] += np.log(products[k])
        if sums[k] > sums[best]:
            best = k
    return sums[best] / max(rows, 1), strengths[best]


@nb.njit(nogil=True, cache=True)
def _left_out(ids, n, column, size, back, scratch, s):  # type: ignore[no-untyped-def]
    """Put the leave-one-out probabilities of this level in place of those of the level before."""
    whole = _counts(ids, n, column, size, scratch)
    for r in range(len(ids)):
        back[r] = (scratch[ids[r] * size + column[r]] + s * back[r]) / (whole[ids[r]] - 1 + s)
    for r in range(len(ids)):
        scratch[ids[r] * size + column[r]] = -1


@dataclass(frozen=True, eq=False)
class _Conditional:
    """One attribute: its parents, the index over their contexts, and the distributions [row, value]."""

    parents: list[int]
    index: NDArray[np.int32]
    table: NDArray[np.float32]


def _conditional(columns: NDArray[np.uint16], sizes: Ints, a: int, parents: list[int]) -> _Conditional:
    """The distributions of every context that occurs, level by level; contexts that do not fall back."""
    rows, size = columns.shape[1], int(sizes[a])
    scratch = np.full(max(4 * _NUMBERS, _CONTEXTS, size), -1, np.int32)
    ids, back = np.zeros(rows, np.int32), np.full(rows, 1.0 / size)
    contexts, groups = int(np.prod(sizes[parents])) if parents else 1, 1
    index = np.zeros(contexts, np.int32)
    keys, tables, table_rows = np.zeros(rows, np.int64), [], 0
    previous = np.full((1, size), 1.0 / size)
    above = np.zeros(1, np.int64)
    used: list[int] = []
    for level in range(len(parents) + 1):
        if level:
            b = parents[level - 1]
            trial = np.empty(rows, np.int32)
            n = _split(ids, columns[b], sizes[b], scratch, trial)
            if (table_rows + n) * size > 4 * _NUMBERS:
                break
            above = np.zeros(n, np.int64)
            above[trial] = ids
            ids, groups = trial, n
            keys = keys * sizes[b] + columns[b]
            used.append(b)
        _, s = _best_strength(ids, groups, columns[a], sizes[a], back, scratch, _STRENGTHS)
        _left_out(ids, groups, columns[a], sizes[a], back, scratch, s)
        counts = np.bincount(ids * np.int64(size) + columns[a], minlength=groups * size)
        counts = counts.reshape(groups, size)
        previous = (counts + s * previous[above]) / (counts.sum(axis=1, keepdims=True) + s)
        tables.append(previous.astype(np.float32))
        where = np.zeros(groups, np.int64)
        where[ids] = keys
        rest = contexts // int(np.prod(sizes[used])) if used else contexts
        index.reshape(-1, rest)[where] = (table_rows + np.arange(groups, dtype=np.int32))[:, None]
        table_rows += groups
    if len(used) < len(parents):
        index = np.ascontiguousarray(index.reshape(int(np.prod(sizes[used])) if used else 1, -1)[:, 0])
    return _Conditional(used, index, np.concatenate(tables))


def _flatten(orders: list[Ints], parts: list[list[_Conditional]], sizes: Ints) -> Networks:
    count, attributes = len(orders), len(sizes)
    parents = np.full((count, attributes, _PARENTS), -1, np.int64)
    strides = np.zeros((count, attributes, _PARENTS), np.int64)
    index_start, table_start = np.zeros((2, count, attributes), np.int64)
    children: list[list[list[int]]] = [[[] for _ in sizes] for _ in range(count)]
    indices, tables, at_index, at_table = [], [], 0, 0
    for k, network in enumerate(parts):
        for a, part in enumerate(network):
            stride = len(part.index)
            for level, b in enumerate(part.parents):
                stride //= int(sizes[b])
                parents[k, a, level], strides[k, a, level] = b, stride
                children[k][b].append(a)
            index_start[k, a], table_start[k, a] = at_index, at_table
            indices.append(part.index)
            tables.append(part.table.reshape(-1))
            at_index += len(part.index)
            at_table += part.table.size
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

"""The compiled loop of fresh draws from a prior.

A particle is a row of codes with its origin: the kind of prior it came from (classes, anchors or networks) and which
class, anchor or network. Origins are drawn first; then the particles of one network are drawn together, one attribute
of all of them after the other: its table stays in the cache, and no draw waits for the one before (measured: half the
time).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["ANCHORS", "CLASSES", "NETWORKS", "PriorArrays", "draw", "pick", "row_of", "uniform"]

CLASSES, ANCHORS, NETWORKS = 0, 1, 2


class PriorArrays(NamedTuple):
    """A prior as the loops read it."""

    sizes: NDArray[np.int64]
    kinds: NDArray[np.float64]
    """Cumulative shares of classes, anchors, networks."""
    redraw: float
    """h: the probability with which an anchor's attribute is redrawn from its class."""
    class_ends: NDArray[np.float64]
    values: NDArray[np.float32]
    starts: NDArray[np.int64]
    anchors: NDArray[np.uint16]
    member: NDArray[np.int32]
    order: NDArray[np.int64]
    parents: NDArray[np.int64]
    strides: NDArray[np.int64]
    index_start: NDArray[np.int64]
    table_start: NDArray[np.int64]
    row_of: NDArray[np.int32]
    table: NDArray[np.float32]
    children: NDArray[np.int64]


@compiled(inline="always")
def uniform(state):  # type: ignore[no-untyped-def]
    """The next number in [0, 1) of SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled()
def row_of(parents, strides, begin, rows, k, a, codes, i):  # type: ignore[no-untyped-def]
    """The row, in its table, of the distribution of attribute a in network k given its parents in particle i."""
    context = begin[k, a]
    for j in range(parents.shape[2]):
        b = parents[k, a, j]
        if b < 0:
            break
        context += strides[k, a, j] * codes[i, b]
    return np.int64(rows[context])


@compiled()
def pick(numbers, start, size, u):  # type: ignore[no-untyped-def]
    """A value by its probability; u is uniform times the sum."""
    for v in range(size):
        u -= numbers[start + v]
        if u < 0:
            return v
    v = size - 1
    while v > 0 and numbers[start + v] <= 0:
        v -= 1
    return v


@compiled()
def draw(p, seed, codes, kinds, origins):  # type: ignore[no-untyped-def]
    """Fill the rows with fresh draws."""
    # Arrays of the prior by names of their own: reading one out of the tuple takes a lock each time.
    sizes, ends_of_kinds, class_ends, anchors, member = p.sizes, p.kinds, p.class_ends, p.anchors, p.member
    values, starts, redraw = p.values.reshape(-1), p.starts, p.redraw
    width = p.values.shape[1]
    state = np.empty(1, np.uint64)
    state[0] = seed
    rows, networks = len(codes), len(p.order)
    ends = np.zeros(networks + 1, np.int64)
    for i in range(rows):
        u = uniform(state)
        kind = 0
        while kind < 2 and u >= ends_of_kinds[kind]:
            kind += 1
        u = uniform(state)
        if kind == CLASSES:
            origin, above = (
                0,
                len(class_ends) - 1,
            )  # the first end above u; np.searchsorted is slow to compile
            while origin < above:
                middle = (origin + above) // 2
                if class_ends[middle] > u:
                    above = middle
                else:
                    origin = middle + 1
        else:
            many = networks if kind == NETWORKS else len(anchors)
            origin = min(int(u * many), many - 1)
        kinds[i], origins[i] = kind, origin
        if kind == NETWORKS:
            ends[origin + 1] += 1
            continue
        z = np.int64(member[origin]) if kind == ANCHORS else origin
        for a in range(len(sizes)):
            if kind == ANCHORS and uniform(state) >= redraw:
                codes[i, a] = anchors[origin, a]
            else:
                codes[i, a] = pick(values, z * width + starts[a], sizes[a], uniform(state))
    for k in range(networks):
        ends[k + 1] += ends[k]
    members, place = np.empty(ends[-1], np.int64), ends.copy()
    for i in range(rows):
        if kinds[i] == NETWORKS:
            members[place[origins[i]]] = i
            place[origins[i]] += 1
    parents, strides, begin, rows_of, table = p.parents, p.strides, p.index_start, p.row_of, p.table
    for k in range(networks):
        for a in p.order[k]:
            start, size = p.table_start[k, a], sizes[a]
            for m in range(ends[k], ends[k + 1]):
                i = members[m]
                row = row_of(parents, strides, begin, rows_of, k, a, codes, i)
                codes[i, a] = pick(table, start + row * size, size, uniform(state))
    return 0

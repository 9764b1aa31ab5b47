"""The compiled search for a chordal graph with small cliques around a given graph.

JAM-PGM and AIM ask for the size of a model with one more marginal hundreds of times per round; this is what answers.
"""

import numpy as np

from openprior.compiled import compiled

__all__ = ["triangulate"]

_ATTEMPTS = 10
_GOLDEN = (5**0.5 - 1) / 2


@compiled()
def triangulate(adjacent, sizes, cliques):  # type: ignore[no-untyped-def]
    """Write the maximal cliques of a chordal graph around this one, one per row; returns how many, and their cells.

    The best of a few greedy elimination orders: next the vertex whose clique is smallest (ties: fewest new edges), or
    the one with fewest new edges (ties: smallest clique); first by the true sizes, then by bent ones.
    Measured on 200 sets of ADULT's marginals: a fifth smaller than by the first two alone on average, the same for
    half of them, and once thirty times smaller.
    """
    d = len(sizes)
    logs = np.log(sizes)
    best, found = np.inf, 0
    for attempt in range(_ATTEMPTS):
        bent = logs.copy()
        if attempt > 1:
            for v in range(d):
                bent[v] *= 0.5 + ((v + 1) * (attempt + 1) * _GOLDEN) % 1.0
        order, later = _eliminate(adjacent, bent, attempt % 2 == 1)
        maximal = _maximal(order, later)
        cells = 0.0
        for v in range(d):
            if maximal[v]:
                product = sizes[v]
                for u in range(d):
                    if later[v, u]:
                        product *= sizes[u]
                cells += product
        if cells < best:
            best, found = cells, 0
            for v in order:
                if maximal[v]:
                    cliques[found] = later[v]
                    cliques[found, v] = True
                    found += 1
    return found, best


@compiled()
def _maximal(order, later):  # type: ignore[no-untyped-def]
    """Which cliques {v} ∪ later(v) no other contains.

    The first of u's later neighbours to go, p, has later(u) ⊆ {p} ∪ later(p); so p's clique is inside u's exactly if it
    is no larger than later(u), and only such u need be asked.
    """
    d = len(order)
    maximal = np.ones(d, np.bool_)
    for k in range(d):
        u = order[k]
        p = -1
        for j in range(k + 1, d):
            if later[u, order[j]]:
                p = order[j]
                break
        if p >= 0 and later[u].sum() == later[p].sum() + 1:
            maximal[p] = False
    return maximal


@compiled()
def _eliminate(adjacent, logs, by_fill):  # type: ignore[no-untyped-def]
    """A greedy elimination order, and each vertex's later neighbours."""
    d = len(logs)
    graph = adjacent.copy()
    left = np.ones(d, np.bool_)
    order = np.empty(d, np.int64)
    later = np.zeros((d, d), np.bool_)
    weights, fills = np.zeros(d), np.zeros(d)
    stale = np.ones(d, np.bool_)
    near = np.empty(d, np.int64)
    for step in range(d):
        best, first, second = -1, np.inf, np.inf
        for v in range(d):
            if not left[v]:
                continue
            if stale[v]:
                k, weight = 0, logs[v]
                for u in range(d):
                    if graph[v, u] and left[u]:
                        near[k] = u
                        k += 1
                        weight += logs[u]
                missing = 0
                for i in range(k):
                    for j in range(i):
                        missing += not graph[near[i], near[j]]
                weights[v], fills[v], stale[v] = weight, missing, False
            a, b = (fills[v], weights[v]) if by_fill else (weights[v], fills[v])
            if a < first or (a == first and b < second):
                best, first, second = v, a, b
        order[step] = best
        left[best] = False
        k = 0
        for u in range(d):
            if graph[best, u] and left[u]:
                later[best, u] = True
                near[k] = u
                k += 1
        for i in range(k):
            # Fill counts change for every neighbour of a vertex that got an edge.
            stale[near[i]] = True
            for j in range(i):
                if not graph[near[i], near[j]]:
                    graph[near[i], near[j]] = graph[near[j], near[i]] = True
                    for v in range(d):
                        if graph[v, near[i]] and graph[v, near[j]]:
                            stale[v] = True
    return order, later

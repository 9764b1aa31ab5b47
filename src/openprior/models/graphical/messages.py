"""The compiled passes of messages through a junction tree.

They read the tree as tables of integers (propagation.py), so that a new set of cliques costs a few small arrays and no
compilation. A clique's own table, which is large, is never written down. It is a product of at most three smaller
ones, A·B·R, whose attributes are in all three (s), or in two: v in A and B, x in A and R, y in B and R; others are
summed away first. Then all that has to be known of it is three products of matrices, one for each s: what A and B say
to R, Σᵥ A[s, x, v]·B[s, v, y], and what each of the others hears. R is what comes from the parent, or a root's third.

Tables come as logarithms. They are worked with as numbers relative to their largest, unless they spread so far that
a product could vanish: then in logarithms all along, which takes about ten times as long and is never needed for long.
"""

import math

import numpy as np

from openprior.compiled import compiled
from openprior.models.graphical.fast_exp import CAREFUL, FAST, exps, fast_exp, fast_log
from openprior.models.graphical.products import flipped, largest_sums, log_products, products, products_across

__all__ = ["largest", "propagate"]

_SPREAD = 640.0
"""Logarithms of a clique's tables that together spread no further than this cannot make a product vanish."""


@compiled(fastmath=FAST)
def propagate(logs, values, sink, packed, weights, cliques, slots, nested, inside, pool, total, in_logs):  # type: ignore[no-untyped-def]
    """Log-potentials of the factors (in `logs`) to their marginals (in `sink`); returns log Z of every root, summed.

    Infinity if the numbers spread too far and `in_logs` is not set: nothing in `sink` is of use then.
    """
    log_z = 0.0
    for c in range(len(cliques)):
        _spread(logs, nested, inside, pool, c)
        top, width = _load(logs, values, packed, weights, cliques, slots, pool, c, in_logs)
        if top == -np.inf:
            return -np.inf
        if width > _SPREAD and not in_logs:
            return np.inf
        log_z += _rise(logs, packed, weights, cliques, slots, pool, c, top, total, in_logs)
        if log_z == -np.inf:
            return log_z
    for c in range(len(cliques) - 1, -1, -1):
        _fall(values, sink, packed, weights, cliques, slots, pool, c, in_logs)
        for k in range(inside[c + 1] - 1, inside[c] - 1, -1):
            start, size, host, cells, at = nested[k]
            _sum_into(sink[host : host + cells], pool[at : at + cells], sink[start : start + size])
    return log_z


@compiled(fastmath=FAST)
def largest(logs, packed, weights, cliques, slots, nested, inside, pool):  # type: ignore[no-untyped-def]
    """The largest sum of the factors' values in any row: the way up, with max in place of log-sum-exp."""
    found = 0.0
    for c in range(len(cliques)):
        _spread(logs, nested, inside, pool, c)
        root = cliques[c, 0] == 1
        for t in range(3 if root else 2):
            part = _area(packed, cliques, c, t)
            start, size, at = slots[c, t]
            part[:] = -np.inf if size else 0.0
            for i in range(size):
                p = pool[at + i]
                part[p] = max(part[p], logs[start + i])
        a, b, _ = _matrices(packed, cliques, c)
        out = _matrices(weights, cliques, c)[2]
        largest_sums(a, b, out)
        met = _area(weights, cliques, c, 2)
        if root:
            found += (met + _area(packed, cliques, c, 2)).max()
        else:
            start, size, at = slots[c, 2]
            for i in range(size):
                logs[start + i] = met[pool[at + i]]
    return found


@compiled(fastmath=FAST)
def _spread(logs, nested, inside, pool, c):  # type: ignore[no-untyped-def]
    """Add the smaller tables of a clique to the larger ones that contain them."""
    for k in range(inside[c], inside[c + 1]):
        start, _, host, cells, at = nested[k]
        part, places = logs[host : host + cells], pool[at : at + cells]
        for i in range(cells):
            part[i] += logs[start + places[i]]


@compiled(fastmath=FAST)
def _load(logs, values, packed, weights, cliques, slots, pool, c, in_logs):  # type: ignore[no-untyped-def]
    """A clique's tables, relative to their largest cells and with only what is in two of them; returns the sum of
    those largest, and how far all that is possible spreads below."""
    top_of_all, width = 0.0, 0.0
    for t in range(3 if cliques[c, 0] == 1 else 2):
        part = _area(packed, cliques, c, t)
        start, size, at = slots[c, t]
        if size == 0:
            part[:] = 0.0 if in_logs else 1.0
            continue
        given, own, places = logs[start : start + size], values[start : start + size], pool[at : at + size]
        top, low = -np.inf, np.inf
        for i in range(size):
            top = max(top, given[i])
            low = min(low, given[i] if given[i] > -np.inf else np.inf)
        if top == -np.inf:
            return top, 0.0
        top_of_all += top
        width += top - low
        for i in range(size):
            own[i] = given[i] - top
        if in_logs:
            _log_sum_into(own, places, part, _area(weights, cliques, c, t))
        else:
            exps(own)
            _sum_into(own, places, part)
    return top_of_all, width


@compiled(fastmath=CAREFUL)
def _rise(logs, packed, weights, cliques, slots, pool, c, top, total, in_logs):  # type: ignore[no-untyped-def]
    """What A and B say to R, as a message to the parent; or at a root, log Z, and R scaled to the total."""
    a, b, _ = _matrices(packed, cliques, c)
    out = _matrices(weights, cliques, c)[2]
    if in_logs:
        log_products(a, b, out)
    else:
        products(a, b, out)
    met, own = _area(weights, cliques, c, 2), _area(packed, cliques, c, 2)
    spare = math.log(cliques[c, 5])
    if cliques[c, 0] == 0:
        for i in range(len(met)):
            own[i] = (met[i] if in_logs else fast_log(met[i])) + (top + spare)
        start, size, at = slots[c, 2]
        for i in range(size):
            logs[start + i] = own[pool[at + i]]
        return 0.0
    if in_logs:
        high = (met + own).max()
        if high == -np.inf:
            return high
        log_mass = high + math.log(np.exp(met + own - high).sum())
        own += math.log(total) - log_mass
        met += math.log(total) - log_mass
    else:
        mass = 0.0
        for i in range(len(met)):
            mass += met[i] * own[i]
        if mass == 0.0:
            return -np.inf
        log_mass = math.log(mass)
        own *= total / mass
        met *= total / mass
    return top + spare + log_mass


@compiled(fastmath=FAST)
def _fall(values, sink, packed, weights, cliques, slots, pool, c, in_logs):  # type: ignore[no-untyped-def]
    """A clique, downwards: the marginals of its tables, from that of its separator."""
    root = cliques[c, 0] == 1
    met, own = _area(weights, cliques, c, 2), _area(packed, cliques, c, 2)
    if not root:
        start, size, at = slots[c, 2]
        _sum_into(sink[start : start + size], pool[at : at + size], own)
        for i in range(len(own)):
            if in_logs:
                own[i] = math.log(own[i]) - met[i] if own[i] > 0.0 and met[i] > -np.inf else -np.inf
            else:
                own[i] = own[i] / met[i] if met[i] > 0.0 else 0.0
    a, b, r = _matrices(packed, cliques, c)
    to_a, to_b, _ = _matrices(weights, cliques, c)
    if in_logs:
        log_products(r, flipped(b), to_a)
        log_products(flipped(a), r, to_b)
    else:
        products_across(r, b, to_a)
        products(flipped(a), r, to_b)
    for t in range(3 if root else 2):
        start, size, at = slots[c, t]
        heard = _area(weights, cliques, c, t)
        for i in range(size):
            w, x = heard[pool[at + i]], values[start + i]
            sink[start + i] = math.exp(x + w) if in_logs else x * w


@compiled(fastmath=FAST)
def _sum_into(table, places, sums):  # type: ignore[no-untyped-def]
    """Sum a table down along a map."""
    sums[:] = 0.0
    for i in range(len(table)):
        sums[places[i]] += table[i]


@compiled(fastmath=CAREFUL)
def _log_sum_into(table, places, sums, room):  # type: ignore[no-untyped-def]
    """The same in logarithms."""
    room[:] = -np.inf
    for i in range(len(table)):
        room[places[i]] = max(room[places[i]], table[i])
    sums[:] = 0.0
    for i in range(len(table)):
        high = room[places[i]]
        if high > -np.inf:
            sums[places[i]] += fast_exp(table[i] - high)
    for i in range(len(sums)):
        sums[i] = room[i] + fast_log(sums[i]) if room[i] > -np.inf else -np.inf


@compiled(inline="always")
def _area(numbers, cliques, c, t):  # type: ignore[no-untyped-def]
    """The place of A, B or R in a workspace, flat."""
    return numbers[cliques[c, 6 + t] : cliques[c, 7 + t]]


@compiled()
def _matrices(numbers, cliques, c):  # type: ignore[no-untyped-def]
    """The same as matrices: A[s, x, v], B[s, v, y], R[s, x, y]."""
    _, s, x, v, y, _, first, second, third, end = cliques[c]
    a, b = numbers[first:second].reshape((s, x, v)), numbers[second:third].reshape((s, v, y))
    return a, b, numbers[third:end].reshape((s, x, y))

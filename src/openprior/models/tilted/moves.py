"""The compiled loops of a tilted prior: fresh draws, and moves of particles that leave p ∝ p₀·exp(−Θ) as it is.

A particle is a row of codes with its origin: the kind of prior it came from (classes, anchors or networks) and which
class, anchor or network. A *fresh draw* x′ from p₀ replaces x with probability min(1, exp(Θ(x) − Θ(x′))); the density
of p₀ cancels. A *Gibbs pass* redraws one attribute after the other given its origin: from its conditional times
exp(−Θ), exactly for classes and anchors; for networks that is a proposal, accepted by what the attribute's children
say. Particles are moved in chunks, each with a generator of its own, so that threads change nothing.
"""

from typing import NamedTuple

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ANCHORS",
    "CHUNK",
    "CLASSES",
    "NETWORKS",
    "PriorArrays",
    "TiltArrays",
    "draw",
    "potentials",
    "sweep",
]

CLASSES, ANCHORS, NETWORKS = 0, 1, 2
CHUNK = 2048


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


class TiltArrays(NamedTuple):
    """Θ as the loops read it: blocks with their attributes and strides, and the blocks of every attribute."""

    attributes: NDArray[np.int64]
    """[block, place]; -1 where there is none."""
    strides: NDArray[np.int64]
    starts: NDArray[np.int64]
    theta: NDArray[np.float32]
    of: NDArray[np.int64]
    """[attribute, place]: the blocks that have it; -1 where there is none."""
    stride_of: NDArray[np.int64]


@nb.njit(nogil=True, cache=True, inline="always")
def _uniform(state):  # type: ignore[no-untyped-def]
    """The next number in [0, 1) of SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@nb.njit(nogil=True, cache=True)
def _row(p, k, a, x):  # type: ignore[no-untyped-def]
    """Where the distribution of attribute a given its parents begins."""
    context = p.index_start[k, a]
    for j in range(p.parents.shape[2]):
        b = p.parents[k, a, j]
        if b < 0:
            break
        context += p.strides[k, a, j] * x[b]
    return p.table_start[k, a] + np.int64(p.row_of[context]) * p.sizes[a]


@nb.njit(nogil=True, cache=True)
def _pick(numbers, start, size, u):  # type: ignore[no-untyped-def]
    """A value by its probability; u is uniform times the sum."""
    for v in range(size):
        u -= numbers[start + v]
        if u < 0:
            return v
    v = size - 1
    while v > 0 and numbers[start + v] <= 0:
        v -= 1
    return v


@nb.njit(nogil=True, cache=True)
def _draw_one(p, x, state):  # type: ignore[no-untyped-def]
    """A row from the prior into x; its kind and origin."""
    u = _uniform(state)
    kind = 0
    while kind < 2 and u >= p.kinds[kind]:
        kind += 1
    d = len(p.sizes)
    if kind == NETWORKS:
        origin = min(int(_uniform(state) * len(p.order)), len(p.order) - 1)
        for i in range(d):
            a = p.order[origin, i]
            x[a] = _pick(p.table, _row(p, origin, a, x), p.sizes[a], _uniform(state))
        return kind, origin
    if kind == CLASSES:
        origin = np.searchsorted(p.class_ends, _uniform(state), side="right")
        origin = min(origin, len(p.class_ends) - 1)
        for a in range(d):
            x[a] = _pick(p.values[origin], p.starts[a], p.sizes[a], _uniform(state))
        return kind, origin
    origin = min(int(_uniform(state) * len(p.anchors)), len(p.anchors) - 1)
    z = p.member[origin]
    for a in range(d):
        if _uniform(state) >= p.redraw:
            x[a] = p.anchors[origin, a]
        else:
            x[a] = _pick(p.values[z], p.starts[a], p.sizes[a], _uniform(state))
    return kind, origin


@nb.njit(nogil=True, cache=True)
def draw(p, seed, codes, kinds, origins):  # type: ignore[no-untyped-def]
    """Fill the rows with fresh draws."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    for i in range(len(codes)):
        kinds[i], origins[i] = _draw_one(p, codes[i], state)
    return 0


@nb.njit(nogil=True, cache=True)
def _potential(t, x):  # type: ignore[no-untyped-def]
    """Θ(x)."""
    total = 0.0
    for b in range(len(t.starts)):
        cell = t.starts[b]
        for j in range(t.attributes.shape[1]):
            a = t.attributes[b, j]
            if a < 0:
                break
            cell += t.strides[b, j] * x[a]
        total += t.theta[cell]
    return total


@nb.njit(nogil=True, cache=True)
def potentials(t, codes, out):  # type: ignore[no-untyped-def]
    """Θ of every row, into out."""
    for i in range(len(codes)):
        out[i] = _potential(t, codes[i])
    return 0


@nb.njit(nogil=True, cache=True)
def _tilts(t, a, size, x, out):  # type: ignore[no-untyped-def]
    """−Θ as a function of attribute a alone, into out; blocks without a are left out."""
    for v in range(size):
        out[v] = 0.0
    for j in range(t.of.shape[1]):
        b = t.of[a, j]
        if b < 0:
            break
        step = t.stride_of[a, j]
        cell = t.starts[b] - step * x[a]
        for i in range(t.attributes.shape[1]):
            c = t.attributes[b, i]
            if c < 0:
                break
            cell += t.strides[b, i] * x[c]
        for v in range(size):
            out[v] -= t.theta[cell + v * step]


@nb.njit(nogil=True, cache=True)
def _redraw_class(p, x, logs, state):  # type: ignore[no-untyped-def]
    """The class of a row, from its distribution given the row."""
    peak = -np.inf
    before = 0.0
    for z in range(len(logs)):
        total = np.log(p.class_ends[z] - before + 1e-300)
        before = p.class_ends[z]
        product = 1.0
        for a in range(len(x)):
            product *= p.values[z, p.starts[a] + x[a]]
            if product < 1e-200:
                total += np.log(product + 1e-300)
                product = 1.0
        logs[z] = total + np.log(product)
        peak = max(peak, logs[z])
    mass = 0.0
    for z in range(len(logs)):
        logs[z] = np.exp(logs[z] - peak)
        mass += logs[z]
    return _pick(logs, 0, len(logs), _uniform(state) * mass)


@nb.njit(nogil=True, cache=True)
def _redraw_attribute(p, t, kind, origin, a, x, weights, state):  # type: ignore[no-untyped-def]
    """One step of the Gibbs pass."""
    size = p.sizes[a]
    if size < 2:
        return
    _tilts(t, a, size, x, weights)
    peak = -np.inf
    for v in range(size):
        peak = max(peak, weights[v])
    mass = 0.0
    if kind == NETWORKS:
        row = _row(p, origin, a, x)
        for v in range(size):
            weights[v] = p.table[row + v] * np.exp(weights[v] - peak)
            mass += weights[v]
    else:
        z, keep, kept = np.int64(origin), 0.0, np.int64(-1)
        redraw = 1.0
        if kind == ANCHORS:
            z, kept, redraw = np.int64(p.member[origin]), np.int64(p.anchors[origin, a]), p.redraw
            keep = 1.0 - redraw
        for v in range(size):
            base = redraw * p.values[z, p.starts[a] + v]
            if v == kept:
                base += keep
            weights[v] = base * np.exp(weights[v] - peak)
            mass += weights[v]
    if not mass > 0.0:
        return
    v, old = _pick(weights, 0, size, _uniform(state) * mass), x[a]
    if v == old:
        return
    if kind != NETWORKS:
        x[a] = v
        return
    ratio = 1.0
    for j in range(p.children.shape[2]):
        c = p.children[origin, a, j]
        if c < 0:
            break
        before = p.table[_row(p, origin, c, x) + x[c]]
        x[a] = v
        ratio *= p.table[_row(p, origin, c, x) + x[c]] / before
        x[a] = old
    if _uniform(state) < ratio:
        x[a] = v


@nb.njit(nogil=True, cache=True)
def sweep(p, t, seed, codes, kinds, origins, fresh):  # type: ignore[no-untyped-def]
    """Move every particle: so many fresh draws offered, then a Gibbs pass over a random half of
    the attributes. How many fresh draws were taken."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    d = codes.shape[1]
    weights, other = np.empty(p.sizes.max()), np.empty(d, codes.dtype)
    logs = np.empty(len(p.class_ends))
    taken = 0
    for i in range(len(codes)):
        x = codes[i]
        if fresh > 0:
            now = _potential(t, x)
            for _ in range(fresh):
                kind, origin = _draw_one(p, other, state)
                then = _potential(t, other)
                if then <= now or _uniform(state) < np.exp(now - then):
                    x[:] = other
                    kinds[i], origins[i], now = kind, origin, then
                    taken += 1
        if kinds[i] == CLASSES:
            origins[i] = _redraw_class(p, x, logs, state)
        for a in range(d):
            if _uniform(state) < 0.5:
                _redraw_attribute(p, t, kinds[i], origins[i], a, x, weights, state)
    return taken

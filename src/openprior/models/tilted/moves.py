"""The compiled moves of particles, which leave p ∝ p₀·exp(−Θ) as it is.

A *fresh draw* x′ from p₀ replaces x with probability min(1, exp(Θ(x) − Θ(x′))); the density of p₀ cancels. A *Gibbs
pass* redraws one attribute after the other given its origin: from its conditional times exp(−Θ), exactly for classes
and anchors; for networks that is a proposal, accepted by what the attribute's children say. Particles are moved in
chunks, each with a generator of its own, so that threads change nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled
from openprior.models.prior.draws import ANCHORS, CLASSES, NETWORKS, PriorArrays, draw, pick, row_of, uniform

__all__ = ["CHUNK", "TiltArrays", "potentials", "sweep"]

CHUNK = 8192
_SIDE = 16
"""Values whose weights are added up apart."""

Seeds = NDArray[np.uint64]
Cloud = tuple[NDArray[np.uint16], NDArray[np.int8], NDArray[np.int32]]
"""Codes, kinds and origins of particles."""


class TiltArrays(NamedTuple):
    """Θ as the loops read it: blocks with their attributes and strides, and the blocks of every attribute."""

    attributes: NDArray[np.int64]
    """[block, place]; where there is none, attribute 0 with stride 0."""
    strides: NDArray[np.int64]
    starts: NDArray[np.int64]
    theta: NDArray[np.float32]
    factors: NDArray[np.float32]
    """exp(−θ), so that redrawing an attribute takes no exponential; every block stands here once for each of its
    attributes, with the values of that attribute side by side, so that the loop over them runs in vectors."""
    links: NDArray[np.uint64]
    """[attribute, block that has it]: where its copy begins in `factors`, and then the other attributes and their
    strides there, in turns."""
    degrees: NDArray[np.int64]
    """How many blocks an attribute has."""


@compiled()
def potentials(t, codes, out):  # type: ignore[no-untyped-def]
    """Θ of every row, into out: one block after the other."""
    theta = t.theta
    for i in range(len(codes)):
        out[i] = 0.0
    for b in range(len(t.starts)):
        start, attributes, strides = t.starts[b], t.attributes[b], t.strides[b]
        for i in range(len(codes)):
            cell = start
            for j in range(len(attributes)):
                cell += strides[j] * codes[i, attributes[j]]
            out[i] += theta[cell]
    return 0


@compiled()
def _tilt_weights(links, degree, factors, codes, i, size, weights, sums):  # type: ignore[no-untyped-def]
    """Multiply the weights of all values of an attribute of particle i by exp(−Θ); blocks without it, which no value
    changes, are left out. The sum of the weights; those of every 16 of them are in `sums`."""
    # Unsigned numbers: a place that could be negative would be looked at twice, and not in vectors.
    values = np.uint64(size)
    for j in range(degree):
        cell = links[j, 0]
        for k in range(1, links.shape[1], 2):
            cell += links[j, k + 1] * np.uint64(codes[i, links[j, k]])
        for v in range(values):
            weights[v] *= factors[cell + v]
    mass = 0.0
    for s in range((size + _SIDE - 1) // _SIDE):
        first, end = _SIDE * s, min(_SIDE * s + _SIDE, size)
        a, b = 0.0, 0.0
        for v in range(first, end - 1, 2):
            a += weights[v]
            b += weights[v + 1]
        if (end - first) % 2:
            a += weights[end - 1]
        sums[s] = a + b
        mass += sums[s]
    return mass


@compiled()
def _pick_summed(weights, sums, size, u):  # type: ignore[no-untyped-def]
    """A value by its weight; u is uniform times the sum of the weights."""
    s, last = 0, (size - 1) // _SIDE
    # Where rounding leaves something of u, no value without weight is picked.
    while last > 0 and sums[last] <= 0:
        last -= 1
    while s < last and u >= sums[s]:
        u -= sums[s]
        s += 1
    return _SIDE * s + pick(weights, _SIDE * s, min(_SIDE, size - _SIDE * s), u)


@compiled()
def _redraw_classes(ends, of_class, starts, seed, codes, kinds, origins):  # type: ignore[no-untyped-def]
    """The class of every particle that came from one, from its distribution given the row; it stays where no class can
    have made the row."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    columns = codes.shape[1]
    # By hand: NumPy's ways to say this take seconds to compile.
    classes, width = of_class.shape
    values, shares, likely = np.empty((width, classes), np.float32), np.empty(classes), np.empty(classes)
    for z in range(classes):
        shares[z] = ends[z] - (ends[z - 1] if z > 0 else 0.0)
        for v in range(width):
            values[v, z] = of_class[z, v]
    for i in range(len(codes)):
        if kinds[i] != CLASSES:
            continue
        for z in range(classes):
            likely[z] = shares[z]
        mass = 1.0
        for a in range(columns):
            value = starts[a] + codes[i, a]
            for z in range(classes):
                likely[z] *= values[value, z]
            if a % 8 == 7 or a == columns - 1:  # so that products of many small numbers stay above zero
                mass = 0.0
                for z in range(classes):
                    mass += likely[z]
                if not mass > 0.0:
                    break
                for z in range(classes):
                    likely[z] /= mass
        if mass > 0.0:
            origins[i] = pick(likely, 0, classes, uniform(state))


@compiled()
def _take(now, then, seed, codes, kinds, origins, others, kinds_of, origins_of):  # type: ignore[no-untyped-def]
    """Let every particle take what it is offered, by the Θ of both; how many did."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    taken = 0
    for i in range(len(codes)):
        if then[i] <= now[i] or uniform(state) < np.exp(now[i] - then[i]):
            for a in range(codes.shape[1]):
                codes[i, a] = others[i, a]
            kinds[i], origins[i] = kinds_of[i], origins_of[i]
            taken += 1
    return taken


def _offer(p: PriorArrays, t: TiltArrays, seeds: Seeds, cloud: Cloud) -> int:
    """A fresh draw for every particle; how many were taken."""
    others = np.empty_like(cloud[0]), np.empty_like(cloud[1]), np.empty_like(cloud[2])
    now, then = np.empty(len(cloud[0])), np.empty(len(cloud[0]))
    draw(p, seeds[0], *others)
    potentials(t, cloud[0], now)
    potentials(t, others[0], then)
    taken: int = _take(now, then, seeds[1], *cloud, *others)
    return taken


def sweep(p: PriorArrays, t: TiltArrays, seed: np.uint64, cloud: Cloud, *, fresh: bool) -> int:
    """Move every particle of a cloud in place: a fresh draw is offered, if so wished; then comes a Gibbs pass. How many
    fresh draws were taken."""
    seeds = np.random.default_rng(seed).integers(0, 1 << 63, size=4, dtype=np.uint64)
    taken = _offer(p, t, seeds, cloud) if fresh else 0
    _redraw_classes(p.class_ends, p.values, p.starts, seeds[2], *cloud)
    _redraw(p, t, seeds[3], *cloud)
    return taken


@compiled()
def _redraw(p, t, seed, codes, kinds, origins):  # type: ignore[no-untyped-def]
    """A random half of the attributes of every particle, one attribute of all particles after the other."""
    state = np.empty(1, np.uint64)
    state[0] = seed
    rows, columns = codes.shape
    # Arrays of the prior by names of their own: reading one out of the tuple takes a lock each time.
    sizes, starts, member, anchors, redraw = p.sizes, p.starts, p.member, p.anchors, p.redraw
    values, factors = p.values, t.factors
    parents, strides, begin, rows_of = p.parents, p.strides, p.index_start, p.row_of
    tables, table, children = p.table_start, p.table, p.children
    weights, sums = np.empty(values.shape[1]), np.empty(values.shape[1] // _SIDE + 1)
    for a in range(columns):
        size, start, links, degree = sizes[a], starts[a], t.links[a], t.degrees[a]
        if size < 2:
            continue
        for i in range(rows):
            if uniform(state) >= 0.5:
                continue
            kind, origin = kinds[i], np.int64(origins[i])
            if kind == NETWORKS:
                row = row_of(parents, strides, begin, rows_of, origin, a, codes, i)
                row = tables[origin, a] + row * size
                for v in range(size):
                    weights[v] = table[row + v]
            elif kind == ANCHORS:
                z = np.int64(member[origin])
                for v in range(size):
                    weights[v] = redraw * values[z, start + v]
                weights[anchors[origin, a]] += 1.0 - redraw
            else:
                for v in range(size):
                    weights[v] = values[origin, start + v]
            mass = _tilt_weights(links, degree, factors, codes, i, size, weights, sums)
            if not 0.0 < mass < np.inf:
                continue
            v, old = _pick_summed(weights, sums, size, uniform(state) * mass), codes[i, a]
            if v == old:
                continue
            codes[i, a] = v
            if kind != NETWORKS:
                continue
            ratio = 1.0
            for j in range(children.shape[2]):
                c = children[origin, a, j]
                if c < 0:
                    break
                place = tables[origin, c] + codes[i, c]
                new = row_of(parents, strides, begin, rows_of, origin, c, codes, i)
                codes[i, a] = old
                before = row_of(parents, strides, begin, rows_of, origin, c, codes, i)
                codes[i, a] = v
                was = np.float64(table[place + before * sizes[c]])
                ratio *= table[place + new * sizes[c]] / was if was > 0.0 else np.inf
            if not uniform(state) < ratio:  # so that 0 times infinity is no reason to move
                codes[i, a] = old

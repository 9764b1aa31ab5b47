"""One update of a distribution by a group of disjoint 0/1 queries, at the least relative entropy.

`project` finds the answers that a distribution can have, `update` the distribution that has them; `update_by_each` does
both for many groups, one after the other, in compiled loops. relative_entropy.py says what this is part of.
"""

import numpy as np
from numpy.typing import NDArray

from openprior.compiled import compiled

__all__ = ["l1_loss", "points_per_query", "project", "update", "update_by_each"]

Floats = NDArray[np.float64]

_NONE = 1e-300
"""A mass below this is none: dividing by it would leave the range of floating point."""
_EXACT = 1e-13
"""Shares whose sum is as close to 1 as this miss it by rounding only."""


def project(answers: Floats, mass: Floats, covers: bool, points: NDArray[np.int64] | None = None) -> Floats:
    """The y nearest to the answers in L1 with y ≥ 0 and Σy = 1 (covers) or Σy ≤ 1; of all such y the one with the
    least relative entropy to the queries' current masses m.

    Proof: with c = max(answers, 0), ‖y − answers‖₁ is ‖y − c‖₁ plus a constant for y ≥ 0. If Σy = 1 is asked,
    ‖y − c‖₁ ≥ |1 − Σc|, with equality just when y ≥ c (Σc ≤ 1) or y ≤ c (Σc ≥ 1). If Σy ≤ 1 is asked, y = c is the only
    minimiser where Σc ≤ 1, and else again y ≤ c with Σy = 1. Among those, Σ y log(y/m) is least, by its Lagrangian,
    where y/m is one constant t except at the bounds: y = max(c, t·m), or min(c, t·m), with the t that gives Σy = 1. ∎

    A query without mass is the limit of a small one: it gets more than c never, and less than c unless the others
    cannot take all (then such queries share the rest in proportion to their points). A query without points can have
    no mass: its y is 0. `points` is the number of points of every query; one each if it is not given.
    """
    c = np.ascontiguousarray(answers, np.float64)
    sizes = np.ones(len(c), np.int64) if points is None else np.ascontiguousarray(points, np.int64)
    out = np.empty(len(c))
    _project(c, np.ascontiguousarray(mass, np.float64), covers, sizes, out)
    return out


def update(p: Floats, labels: NDArray[np.int32], y: Floats) -> Floats:
    """The distribution nearest to p in relative entropy whose queries have the shares y (Definition 3.1).

    A point of a query with mass: p·y/mass. Of a query without mass: y/points of the query. Outside all queries: the
    rest 1 − Σy in proportion to p, or evenly if p has no mass there. If all points are inside, y is scaled to sum to 1.
    """
    q = np.array(p, np.float64)
    where = np.ascontiguousarray(labels, np.int32)
    shares = np.array(y, np.float64)
    mass = np.zeros(len(shares) + 1)
    points = points_per_query(where, len(shares))
    _masses(q, where, mass)
    shares[points[:-1] == 0] = 0.0
    inside = shares.sum()
    if points[-1] == 0 and inside <= 0:
        return q
    if points[-1] == 0 or inside > 1:
        shares /= inside
    _apply(q, where, shares, mass, points, np.empty(0))
    return q


def points_per_query(labels: NDArray[np.int32], queries: int) -> NDArray[np.int64]:
    """The number of points of every query, and of those in none."""
    return np.bincount(np.where(labels < 0, queries, labels), minlength=queries + 1).astype(np.int64)


@compiled()
def _masses(q, labels, mass):  # type: ignore[no-untyped-def]
    """The mass of every query and, last, of the points in none."""
    mass[:] = 0.0
    k = len(mass) - 1
    for j in range(len(q)):
        i = labels[j]
        mass[i if i >= 0 else k] += q[j]


@compiled()
def _fill(c, mass, room, out):  # type: ignore[no-untyped-def]
    """y = max(c, t·mass) with Σy = room ≥ Σc, for t by its breakpoints; where the mass is none, y = c."""
    held = np.flatnonzero(mass > _NONE)
    order = held[np.argsort(c[held] / mass[held])]
    n = len(order)
    fixed = np.empty(n + 1)
    fixed[n] = 0.0
    for i in range(len(c)):
        out[i] = c[i]
        if not mass[i] > _NONE:
            fixed[n] += c[i]
    for a in range(n - 1, -1, -1):
        fixed[a] = fixed[a + 1] + c[order[a]]
    raised, t = 0.0, 0.0
    for a in range(n):
        raised += mass[order[a]]
        t = (room - fixed[a + 1]) / raised
        if a + 1 == n or t <= c[order[a + 1]] / mass[order[a + 1]]:
            break
    for i in order:
        out[i] = max(c[i], t * mass[i])


@compiled()
def _cut(c, mass, room, out):  # type: ignore[no-untyped-def]
    """y = min(c, t·mass) with Σy = room ≤ Σc, likewise; returns what is left because the mass is elsewhere none."""
    held = np.flatnonzero(mass > _NONE)
    order = held[np.argsort(c[held] / mass[held])]
    n = len(order)
    free = np.empty(n + 1)
    free[n] = 0.0
    for a in range(n - 1, -1, -1):
        free[a] = free[a + 1] + mass[order[a]]
    out[:] = 0.0
    left = room
    for a in range(n):
        t = left / free[a]
        if t <= c[order[a]] / mass[order[a]]:
            for b in range(a, n):
                out[order[b]] = min(c[order[b]], t * mass[order[b]])
            return 0.0
        out[order[a]] = c[order[a]]
        left = max(left - c[order[a]], 0.0)
    return left


@compiled()
def _project(answers, mass, covers, points, out):  # type: ignore[no-untyped-def]
    """See `project`. More than 1 in one query is like 1: y is below both."""
    k = len(out)
    c, some = np.zeros(k), 0.0
    for i in range(k):
        if points[i] > 0:
            c[i] = min(max(answers[i], 0.0), 1.0)
            some = max(some, mass[i])
    s = c.sum()
    if s <= 1 and not covers:
        out[:] = c
    elif abs(s - 1) <= _EXACT:
        out[:] = c / s
    elif s > 1:
        left = _cut(c, mass, 1.0, out)
        if left > 0:
            rest = np.zeros(k)
            for i in range(k):
                rest[i] = 0.0 if mass[i] > _NONE else float(points[i])
            more = np.empty(k)
            _cut(c, rest, left, more)
            out += more
    elif some > _NONE:
        _fill(c, mass, 1.0, out)
    else:
        _fill(c, points.astype(np.float64), 1.0, out)


@compiled()
def _apply(q, labels, y, mass, points, mean):  # type: ignore[no-untyped-def]
    """Definition 3.1 in place; returns how far q moves in L1. The last of `mass` and `points` is outside all queries;
    `mean`, if it has room, gets the new q added."""
    k = len(y)
    ratio, flat = np.ones(k + 1), np.zeros(k + 1)
    moved, filled = 0.0, False
    for i in range(k + 1):
        share = y[i] if i < k else max(1.0 - y.sum(), 0.0)
        if points[i] == 0:
            continue
        moved += abs(share - mass[i])
        if mass[i] > _NONE:
            ratio[i] = share / mass[i]
        else:
            ratio[i], flat[i] = 0.0, share / points[i]
            filled = filled or share > 0
    for j in range(len(q)):
        i = labels[j] if labels[j] >= 0 else k
        q[j] *= ratio[i]
    if filled:
        for j in range(len(q)):
            q[j] += flat[labels[j] if labels[j] >= 0 else k]
    for j in range(len(mean)):
        mean[j] += q[j]
    return moved


@compiled()
def update_by_each(q, labels, starts, answers, sizes, covers, order, moves, mean):  # type: ignore[no-untyped-def]
    """One update by each partial of `order`; `sizes` has one more entry than `answers` for every partial."""
    for s in order:
        a, b = starts[s], starts[s + 1]
        points = sizes[a + s : b + s + 1]
        mass, y = np.empty(b - a + 1), np.empty(b - a)
        _masses(q, labels[s], mass)
        _project(answers[a:b], mass[:-1], covers[s], points[:-1], y)
        moves[s] = _apply(q, labels[s], y, mass, points, mean)


@compiled()
def l1_loss(q, labels, starts, answers):  # type: ignore[no-untyped-def]
    """‖Wq − ỹ‖₁ over all partials."""
    total = 0.0
    for s in range(len(labels)):
        a, b = starts[s], starts[s + 1]
        mass = np.empty(b - a + 1)
        _masses(q, labels[s], mass)
        for i in range(b - a):
            total += abs(mass[i] - answers[a + i])
    return total

"""Iterative Distribution Estimation: bend a prior to noisy answers, one group of disjoint queries after the other.

A *partial workload* is a group of 0/1 queries of which every point of the domain lies in at most one: a marginal, some
ranges, a predicate. One update finds the answer y that is nearest in L1 to the noisy one among those that a
distribution can have (`project`), and the distribution nearest in relative entropy that has it (`update`). An epoch
visits every partial once, in a random order.

Where some distribution on the prior's support has all answers, and every answer is one a distribution can have, the
epochs converge to the one of least relative entropy to the prior. Where an answer is not (its shares are negative, or
do not sum to 1) but the nearest ones agree, they converge to a distribution of least loss, close to the prior but not
always the closest. Where the partials contradict each other there is nothing to converge to: every update undoes part
of the one before, and the iterates circle. Then their average is better than any of them.

This is pure post-processing: it sees noisy answers and the prior only.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

__all__ = ["Convergence", "Partial", "divergence", "ide", "project", "update"]

Floats = NDArray[np.float64]

_NONE = 1e-300
"""A mass below this is none: dividing by it would leave the range of floating point."""
_EXACT = 1e-13
"""Shares whose sum is as close to 1 as this miss it by rounding only."""
_WINDOW = 20
"""Progress is looked for after every so many epochs, and the mean is over as many."""


@dataclass(frozen=True, eq=False)
class Partial:
    """Disjoint 0/1 queries (‖Ws‖₁ = 1) seen from the points of the support: which query holds each point."""

    labels: NDArray[np.int32]
    """The query of each point; -1: none holds it."""
    answers: Floats
    """Noisy shares of the total, one a query; may be negative and need not sum to 1."""
    covers: bool
    """The queries cover the whole domain, so the shares must sum to 1."""


@dataclass(frozen=True)
class Convergence:
    """How the iteration ended."""

    updates: int
    epochs: int
    loss: float
    """‖Wq − ỹ‖₁ of the result, summed over the partials."""
    divergence: float
    """Relative entropy of the result to the prior."""
    moved: float
    """The most that one update of the last epoch moved the distribution, in L1."""
    converged: bool
    """`moved` fell below the tolerance: another epoch would change nothing."""
    cycling: bool
    """Stopped because neither loss nor moves get smaller: the answers contradict each other."""
    averaged: bool
    """The result is the mean of the last iterates, which has no more loss than the last one."""
    losses: tuple[float, ...]
    """The loss after every epoch."""


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
    points = _points(where, len(shares))
    _masses(q, where, mass)
    shares[points[:-1] == 0] = 0.0
    inside = shares.sum()
    if points[-1] == 0 and inside <= 0:
        return q
    if points[-1] == 0 or inside > 1:
        shares /= inside
    _apply(q, where, shares, mass, points, np.empty(0))
    return q


def divergence(q: Floats, prior: Floats) -> float:
    """Relative entropy of q to the prior, both summing to 1."""
    held = q > 0
    if (prior[held] <= 0).any():
        return math.inf
    return max(float((q[held] * (np.log(q[held]) - np.log(prior[held]))).sum()), 0.0)


def ide(
    prior: Floats,
    partials: Sequence[Partial],
    rng: np.random.Generator,
    *,
    updates: int | None = None,
    tolerance: float = 1e-9,
    most_epochs: int = 1000,
) -> tuple[Floats, Convergence]:
    """Bend the prior to the partials' answers; `updates` stops after just so many updates, else convergence does.

    Points without prior mass get some only where the answers ask for mass in a query that has none (Definition 3.1).
    """
    start = _distribution(prior)
    q = start.copy()
    problem = _Problem(len(q), partials)
    losses: list[float] = []
    moves = np.full(len(partials), np.nan)
    largest: list[float] = []
    done, converged, cycling = 0, not partials, False
    mean, best = np.zeros(0 if updates is not None else len(q)), False
    while partials and done < (math.inf if updates is None else updates) and not converged and not cycling:
        order = rng.permutation(len(partials))[: None if updates is None else updates - done]
        if updates is None and len(losses) % _WINDOW == 0:
            mean[:] = 0.0
        losses.append(problem.epoch(q, order, moves, mean))
        largest.append(float(np.nanmax(moves)))
        done += len(order)
        if updates is None:
            converged = largest[-1] < tolerance
            cycling = not converged and _stalled(losses, largest)
            if len(losses) >= most_epochs:
                break
    if updates is not None and done >= len(partials):
        converged = converged or bool(np.max(moves, initial=0.0) < tolerance)
    loss = problem.loss(q)
    if cycling:
        mean /= mean.sum()
        averaged = problem.loss(mean)
        if averaged <= loss + 1e-12:
            q, loss, best = mean, averaged, True
    return q, Convergence(
        updates=done,
        epochs=len(losses),
        loss=loss,
        divergence=divergence(q, start),
        moved=largest[-1] if largest else 0.0,
        converged=converged,
        cycling=cycling,
        averaged=best,
        losses=tuple(losses),
    )


def _distribution(prior: Floats) -> Floats:
    p = np.array(prior, np.float64)
    if p.ndim != 1 or not np.isfinite(p).all() or (p < 0).any() or not p.sum() > 0:
        raise ValueError("a prior needs finite weights ≥ 0 with a positive sum")
    p /= p.max()
    p /= p.sum()
    return p


def _points(labels: NDArray[np.int32], queries: int) -> NDArray[np.int64]:
    """The number of points of every query, and of those in none."""
    return np.bincount(np.where(labels < 0, queries, labels), minlength=queries + 1).astype(np.int64)


def _stalled(losses: Sequence[float], largest: Sequence[float]) -> bool:
    """Whether the last third of the epochs got no further than the third before.

    Thirds, as convergence may be as slow as one over the number of epochs: then it still shows.
    """
    third = len(losses) // 3
    if len(losses) % _WINDOW or third < _WINDOW:
        return False
    return all(sum(s[-third:]) > 0.97 * sum(s[-2 * third : -third]) for s in (losses, largest))


class _Problem:
    """All partials in the flat form that the compiled loops read."""

    def __init__(self, points: int, partials: Sequence[Partial]) -> None:
        self.labels = np.empty((len(partials), points), np.int32)
        self.starts = np.zeros(len(partials) + 1, np.int64)
        answers, sizes, covers = [], [], []
        for i, partial in enumerate(partials):
            k = len(partial.answers)
            if len(partial.labels) != points:
                raise ValueError(f"a partial has {len(partial.labels)} labels for {points} points")
            if not np.isfinite(partial.answers).all():
                raise ValueError("answers must be finite")
            if points and not -1 <= partial.labels.min() <= partial.labels.max() < k:
                raise ValueError("a label must be -1 or the number of a query")
            self.labels[i] = partial.labels
            size = _points(self.labels[i], k)
            if partial.covers and size[-1]:
                raise ValueError("a partial that covers the domain has points in no query")
            self.starts[i + 1] = self.starts[i] + k
            answers.append(np.asarray(partial.answers, np.float64))
            sizes.append(size)
            # If no point is outside, a distribution on the points has shares that sum to 1 all the same.
            covers.append(not size[-1])
        self.answers = np.concatenate(answers) if answers else np.empty(0)
        self.sizes = np.concatenate(sizes) if sizes else np.empty(0, np.int64)
        self.covers = np.array(covers, np.bool_)

    def epoch(self, q: Floats, order: NDArray[np.intp], moves: Floats, mean: Floats) -> float:
        """Update q by these partials, in order, and tell its loss; adds every iterate to `mean`, if that has room."""
        _epoch(q, self.labels, self.starts, self.answers, self.sizes, self.covers, order, moves, mean)
        return self.loss(q)

    def loss(self, q: Floats) -> float:
        """‖Wq − ỹ‖₁ over all partials."""
        return float(_loss(q, self.labels, self.starts, self.answers))


@nb.njit(nogil=True, cache=True)
def _masses(q, labels, mass):  # type: ignore[no-untyped-def]
    """The mass of every query and, last, of the points in none."""
    mass[:] = 0.0
    k = len(mass) - 1
    for j in range(len(q)):
        i = labels[j]
        mass[i if i >= 0 else k] += q[j]


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
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


@nb.njit(nogil=True, cache=True)
def _epoch(q, labels, starts, answers, sizes, covers, order, moves, mean):  # type: ignore[no-untyped-def]
    """One update by each partial of `order`; `sizes` has one more entry than `answers` for every partial."""
    for s in order:
        a, b = starts[s], starts[s + 1]
        points = sizes[a + s : b + s + 1]
        mass, y = np.empty(b - a + 1), np.empty(b - a)
        _masses(q, labels[s], mass)
        _project(answers[a:b], mass[:-1], covers[s], points[:-1], y)
        moves[s] = _apply(q, labels[s], y, mass, points, mean)


@nb.njit(nogil=True, cache=True)
def _loss(q, labels, starts, answers):  # type: ignore[no-untyped-def]
    """‖Wq − ỹ‖₁ over all partials."""
    total = 0.0
    for s in range(len(labels)):
        a, b = starts[s], starts[s + 1]
        mass = np.empty(b - a + 1)
        _masses(q, labels[s], mass)
        for i in range(b - a):
            total += abs(mass[i] - answers[a + i])
    return total

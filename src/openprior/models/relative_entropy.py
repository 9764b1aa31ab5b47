"""Iterative Distribution Estimation: bend a prior to noisy answers, one group of disjoint queries after the other.

A *partial workload* is a group of 0/1 queries of which every point of the domain lies in at most one: a marginal, some
ranges, a predicate. One update (entropy_update.py) finds the answer y that is nearest in L1 to the noisy one among
those that a distribution can have, and the distribution nearest in relative entropy that has it. An epoch visits every
partial once, in a random order; or, as the paper's Algorithm 1 has it, draws as many of them independently.

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

import numpy as np
from numpy.typing import NDArray

from openprior.models.entropy_update import l1_loss, points_per_query, update_by_each

__all__ = ["Convergence", "Partial", "divergence", "ide"]

Floats = NDArray[np.float64]

_WINDOW = 20
"""Progress is looked for after every so many epochs, and the mean is over as many."""


@dataclass(frozen=True, eq=False)
class Partial:
    """Disjoint 0/1 queries (‖Ws‖₁ = 1) seen from the points of the support: which query holds each point."""

    labels: NDArray[np.int32]
    """The query of each point; -1: none holds it."""
    answers: Floats
    """Noisy shares of the total, one per query; may be negative and need not sum to 1."""
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
    drawn: bool = False,
    tolerance: float = 1e-9,
    most_epochs: int = 1000,
) -> tuple[Floats, Convergence]:
    """Bend the prior to the partials' answers; `updates` stops after just so many updates, else convergence does.

    `drawn`: the next partial is any of them, drawn anew every time. That nothing moves any more is then seen in an
    epoch that visits every one, which follows an epoch of draws that moved nothing.

    Points without prior mass get some only where the answers ask for mass in a query that has none (Definition 3.1).
    """
    start = _distribution(prior)
    q = start.copy()
    problem = _Problem(len(q), partials)
    losses: list[float] = []
    moves = np.full(len(partials), np.nan)
    largest: list[float] = []
    count, converged, cycling, averaged = 0, not partials, False, False
    mean = np.zeros(0 if updates is not None else len(q))
    while partials and count < (math.inf if updates is None else updates) and not converged and not cycling:
        every = not drawn or (updates is None and bool(largest) and largest[-1] < tolerance)
        order = rng.permutation(len(partials)) if every else rng.integers(len(partials), size=len(partials))
        order = order[: None if updates is None else updates - count]
        if updates is None and len(losses) % _WINDOW == 0:
            mean[:] = 0.0
        losses.append(problem.epoch(q, order, moves, mean))
        largest.append(float(np.nanmax(moves)))
        count += len(order)
        if updates is None:
            converged = every and largest[-1] < tolerance
            cycling = not converged and _stalled(losses, largest)
            if len(losses) >= most_epochs:
                break
    if updates is not None and not drawn and count >= len(partials):
        converged = converged or bool(np.max(moves, initial=0.0) < tolerance)
    loss = problem.loss(q)
    if cycling:
        mean /= mean.sum()
        loss_of_mean = problem.loss(mean)
        if loss_of_mean <= loss + 1e-12:
            q, loss, averaged = mean, loss_of_mean, True
    return q, Convergence(
        updates=count,
        epochs=len(losses),
        loss=loss,
        divergence=divergence(q, start),
        moved=largest[-1] if largest else 0.0,
        converged=converged,
        cycling=cycling,
        averaged=averaged,
        losses=tuple(losses),
    )


def _distribution(prior: Floats) -> Floats:
    p = np.array(prior, np.float64)
    if p.ndim != 1 or not np.isfinite(p).all() or (p < 0).any() or not p.sum() > 0:
        raise ValueError("a prior needs finite weights ≥ 0 with a positive sum")
    p /= p.max()
    p /= p.sum()
    return p


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
            size = points_per_query(self.labels[i], k)
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
        update_by_each(q, self.labels, self.starts, self.answers, self.sizes, self.covers, order, moves, mean)
        return self.loss(q)

    def loss(self, q: Floats) -> float:
        """‖Wq − ỹ‖₁ over all partials."""
        return float(l1_loss(q, self.labels, self.starts, self.answers))

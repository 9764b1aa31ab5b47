"""The exact two-stage estimate for small problems: the least loss first, then the least relative entropy to the prior.

This is what `ide` approaches. Stage one is a linear programme for the least ‖Wq − ỹ‖₁ over all distributions q. Its
solution need not be unique, so stage two takes, of *all* q with that loss, the one nearest to the prior; fixing one
answer y* = Wq first, as the linear programme happens to find it, would give a q that depends on the solver.

All q of least loss form a face of the polytope: given any dual solution, they are the feasible points whose variables
with a positive reduced cost are 0. On it every (Wq)ᵢ is fixed, or bounded on one side by ỹᵢ. Points that are 0 on the
whole face are left out; then the nearest q is p·exp(Wᵀλ) up to a factor, with λ free for fixed answers, of one sign for
bounded ones, and least for the convex log Σp·exp(Wᵀλ) − λᵀỹ: Newton's method on the λ that are not held at 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.models.relative_entropy import divergence

__all__ = ["TwoStage", "two_stage"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_ZERO = 1e-8
"""A reduced cost below this is 0."""


@dataclass(frozen=True, eq=False)
class TwoStage:
    """The estimate, its answers, and how far it is from the noisy answers (L1) and the prior (relative entropy)."""

    q: Floats
    y: Floats
    loss: float
    divergence: float


@dataclass(frozen=True, eq=False)
class _Face:
    """All q of least loss: Wq and ỹ agree, but may differ upwards (downwards) where `above` (`below`) is set."""

    matrix: Floats
    answers: Floats
    above: Flags
    below: Flags
    points: Flags
    """Points that may have mass."""


def two_stage(prior: Floats, matrix: Floats, answers: Floats, *, support_only: bool = True) -> TwoStage:
    """The distribution of least relative entropy to the prior among those of least ‖Wq − ỹ‖₁.

    `matrix` is W [queries, points], of zeros and ones; `answers` are ỹ, as shares of the total. With `support_only`, q
    has no mass where the prior has none. Without, such points are used as far as the loss asks for it, and as evenly
    as it allows; the divergence is infinite then.
    """
    p = np.asarray(prior, np.float64)
    w, noisy = np.asarray(matrix, np.float64), np.asarray(answers, np.float64)
    if w.shape != (len(noisy), len(p)) or not np.isin(w, (0.0, 1.0)).all():
        raise ValueError("the matrix must be of zeros and ones, one row per query and one column per point")
    if not (np.isfinite(p).all() and np.isfinite(noisy).all() and (p >= 0).all() and p.sum() > 0):
        raise ValueError("prior and answers must be finite, the prior at least 0 with a positive sum")
    p = p / p.sum()
    least, face = _least_loss(w, noisy, p > 0 if support_only else np.ones(len(p), np.bool_))
    reference, unseen = p, p <= 0
    if face.points[unseen].any():
        # The limit of a small even mass on these points: the least total there comes first, then evenness.
        fewest = _solve(face, unseen.astype(np.float64))
        face = _Face(
            np.vstack([w, unseen.astype(np.float64)]),
            np.append(noisy, fewest[unseen].sum()),
            np.append(face.above, False),
            np.append(face.below, False),
            face.points & (~unseen | (fewest[unseen].sum() > _ZERO)),
        )
        reference = np.where(unseen, 1.0, p)
    held = _support(face)
    q = np.zeros(len(p))
    q[held] = _nearest(reference[held], face.matrix[:, held], face)
    loss = float(np.abs(w @ q - noisy).sum())
    if loss > least + 1e-9 * max(1.0, least):
        raise ArithmeticError(f"the second stage ended at a loss of {loss!r}, not at {least!r}")
    return TwoStage(q, w @ q, loss, divergence(q, p))


def _programme(face: _Face) -> tuple[Floats, Floats, list[tuple[float, float | None]]]:
    """Equations and bounds of (q, what Wq is above ỹ, what it is below)."""
    m, n = face.matrix.shape
    total = np.concatenate([np.ones(n), np.zeros(2 * m)])
    equations = np.vstack([np.hstack([face.matrix, -np.eye(m), np.eye(m)]), total])
    may = np.concatenate([face.points, face.above, face.below])
    return equations, np.append(face.answers, 1.0), [(0.0, None if ok else 0.0) for ok in may]


def _least_loss(matrix: Floats, answers: Floats, points: Flags) -> tuple[float, _Face]:
    from scipy.optimize import linprog

    m, n = matrix.shape
    anywhere = np.ones(m, np.bool_)
    equations, right, bounds = _programme(_Face(matrix, answers, anywhere, anywhere, points))
    cost = np.concatenate([np.zeros(n), np.ones(2 * m)])
    solution = linprog(cost, A_eq=equations, b_eq=right, bounds=bounds, method="highs-ds")
    if not solution.success:
        raise ArithmeticError(f"the least loss could not be found: {solution.message}")
    free = cost - equations.T @ solution.eqlin.marginals <= _ZERO
    least = float(np.abs(matrix @ solution.x[:n] - answers).sum())
    return least, _Face(matrix, answers, free[n : n + m], free[n + m :], points & free[:n])


def _solve(face: _Face, cost: Floats) -> Floats:
    """The q of the face with the least cost."""
    from scipy.optimize import linprog

    m, n = face.matrix.shape
    equations, right, bounds = _programme(face)
    solution = linprog(
        np.append(cost, np.zeros(2 * m)), A_eq=equations, b_eq=right, bounds=bounds, method="highs-ds"
    )
    if not solution.success:
        raise ArithmeticError(f"the second stage could not begin: {solution.message}")
    return np.maximum(np.asarray(solution.x[:n], np.float64), 0.0)


def _support(face: _Face) -> Flags:
    """The points that have mass somewhere on the face, by one linear programme.

    Some multiple s ≥ 1 of a q of the face has at least tⱼ ≤ 1 on every point; Σt is largest where tⱼ = 1 for all points
    that can have mass at all, as a mean of distributions has mass wherever one of them has.
    """
    from scipy.optimize import linprog

    m, n = face.matrix.shape
    equations, right, bounds = _programme(face)
    k = equations.shape[1]
    a_eq = np.hstack([equations, -right[:, None], np.zeros((m + 1, n))])
    a_ub = np.hstack([-np.eye(n), np.zeros((n, k - n + 1)), np.eye(n)])
    solution = linprog(
        np.concatenate([np.zeros(k + 1), -np.ones(n)]),
        A_eq=a_eq,
        b_eq=np.zeros(m + 1),
        A_ub=a_ub,
        b_ub=np.zeros(n),
        bounds=[*bounds, (1.0, None), *[(0.0, 1.0)] * n],
        method="highs-ds",
    )
    return np.asarray(solution.x[k + 1 :] > 0.5, np.bool_) if solution.success else face.points


def _nearest(p: Floats, matrix: Floats, face: _Face) -> Floats:
    """The least relative entropy to p on the face, by Newton's method on the multipliers λ."""
    low = np.where(face.below, -np.inf, np.where(face.above, 0.0, -np.inf))
    high = np.where(face.above, np.inf, np.where(face.below, 0.0, np.inf))
    log_p = np.log(p)
    x = np.zeros(len(matrix))

    def at(x: Floats) -> tuple[float, Floats, Floats]:
        score = log_p + matrix.T @ x
        top = float(score.max())
        weights = np.exp(score - top)
        q = weights / weights.sum()
        return top + float(np.log(weights.sum())) - float(x @ face.answers), q, matrix @ q - face.answers

    value, q, gap = at(x)
    for _ in range(500):
        free = ~(((x <= low) & (gap > 0)) | ((x >= high) & (gap < 0)))
        if np.abs(gap[free]).max(initial=0.0) < 1e-13:
            break
        mean = matrix @ q
        curvature = (matrix * q) @ matrix.T - np.outer(mean, mean)
        step = _newton(curvature, gap, free)
        while (out := free & (((x <= low) & (step < 0)) | ((x >= high) & (step > 0)))).any():
            free &= ~out
            step = _newton(curvature, gap, free)
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, (low - x) / step, np.where(step > 0, (high - x) / step, np.inf))
        length = min(1.0, float(room.min(initial=np.inf)))
        slope = float(gap @ step)
        while True:
            moved = np.clip(x + length * step, low, high)
            there = at(moved)
            if there[0] <= value + 1e-4 * length * slope + 1e-15 * (1 + abs(value)) or length < 1e-12:
                break
            length /= 2
        x, (value, q, gap) = moved, there
    return q


def _newton(curvature: Floats, gap: Floats, free: Flags) -> Floats:
    """The step that zeroes the gap of the free λ; hardly a step where they have no effect (repeated queries)."""
    step = np.zeros(len(gap))
    if free.any():
        inside = np.flatnonzero(free)
        block = curvature[np.ix_(inside, inside)]
        block[np.diag_indices_from(block)] += 1e-12 * max(float(block.diagonal().max()), 1e-300)
        step[inside] = -np.linalg.solve(block, gap[inside])
    size = np.abs(step).max(initial=0.0)
    return step * min(1.0, 30.0 / size) if size > 0 else step

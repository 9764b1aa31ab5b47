"""How large an error is expected of a cell with a given estimate: the curve that fits what was measured.

What is measured of a group of marginals in a stratum is the sum of exp(θ(u)) over its cells, with noise; θ is linear
between knots, with the prior of `curve_prior.py`. The most likely θ is found by the method of Gauss and Newton, with
shorter steps where a whole one would not help; its covariance is that of the quadratic around it. Steps are taken in
coordinates in which the prior is a standard normal: there no measurement, however precise, makes equations singular.
Where there are several beliefs to begin with, each is fitted, and weighed by how likely it made what was measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.curve_prior import KNOTS, Beforehand, Belief, between_knots, worlds_before
from openprior.error_bars.strata import STRATA, Sizes

__all__ = ["ErrorCurve", "Group", "World"]

Floats = NDArray[np.float64]

_STEPS, _SHORTEST, _DONE = 100, 1e-6, 1e-9
_LARGEST = 40.0
"""No logarithm of an error is larger."""


@dataclass(frozen=True, eq=False)
class Group:
    """Marginals with as many columns: their cells, the mean error that was measured in each stratum, and its noise."""

    columns: int
    sizes: Sizes
    errors: Floats
    """Rows per marginal."""
    sigma: float
    """The noise's standard deviation, in the same."""


@dataclass(frozen=True, eq=False)
class World:
    """One way that things may be: how likely it is, the curve of every group there, and how sure that is."""

    share: float
    mean: Floats
    covariance: Floats

    def at(self, group: int, level: Floats) -> tuple[Floats, Floats]:
        """log E|error| at these levels, and the variance of that."""
        place, weights = slice(group * len(KNOTS), (group + 1) * len(KNOTS)), between_knots(level)
        variance = np.einsum("ij,jk,ik->i", weights, self.covariance[place, place], weights)
        return weights @ self.mean[place], np.maximum(variance, 0.0)


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """What was found, in each world that there may be."""

    worlds: tuple[World, ...]

    @staticmethod
    def fitted(groups: Sequence[Group], known: Beforehand) -> "ErrorCurve":
        """To what was measured, and what was known beforehand."""
        columns, sizes = [g.columns for g in groups], [g.sizes for g in groups]
        found = [(share, *_fitted(groups, belief)) for share, belief in worlds_before(columns, sizes, known)]
        best = max(told for _, _, _, told in found)
        shares = [share * math.exp(told - best) for share, _, _, told in found]
        return ErrorCurve(
            tuple(
                World(share / sum(shares), mean, covariance)
                for share, (_, mean, covariance, _) in zip(shares, found, strict=True)
            )
        )

    def expected(self, group: int, level: Floats) -> Floats:
        """E|error| at these levels."""
        each: Floats = sum(w.share * np.exp(w.at(group, level)[0]) for w in self.worlds)  # type: ignore[assignment]
        return each


def _fitted(groups: Sequence[Group], belief: Belief) -> tuple[Floats, Floats, float]:
    """The most likely curve, its covariance, and the logarithm of how likely the belief made what was measured."""
    spread = np.linalg.cholesky(belief.covariance)
    weights = [between_knots(g.sizes.level) for g in groups]
    told = np.concatenate([g.errors / g.sigma for g in groups])

    def expected(theta: Floats) -> tuple[Floats, Floats]:
        """What the curve says was to be measured, in standard deviations, and its derivative."""
        sums, slopes = np.zeros((len(groups), STRATA)), np.zeros((len(groups), STRATA, len(theta)))
        for g, group in enumerate(groups):
            place = slice(g * len(KNOTS), (g + 1) * len(KNOTS))
            each = np.exp(weights[g] @ theta[place]) * group.sizes.cells / group.sigma
            np.add.at(sums[g], group.sizes.stratum, each)
            np.add.at(slopes[g][:, place], group.sizes.stratum, each[:, None] * weights[g])
        return sums.reshape(-1), slopes.reshape(-1, len(theta))

    def loss(away: Floats) -> float:
        theta = belief.mean + spread @ away
        if theta.max() > _LARGEST:
            return np.inf
        off = told - expected(theta)[0]
        return float(off @ off + away @ away) / 2

    away = np.zeros(len(belief.mean))
    now, one = loss(away), np.eye(len(away))
    for _ in range(_STEPS):
        sums, slopes = expected(belief.mean + spread @ away)
        slopes = slopes @ spread
        step, part = np.linalg.solve(one + slopes.T @ slopes, slopes.T @ (told - sums) - away), 1.0
        while part > _SHORTEST and not (better := loss(away + part * step)) < now:
            part /= 2
        if part <= _SHORTEST:
            break
        away, gained, now = away + part * step, now - better, better
        if gained < _DONE:
            break
    slopes = expected(belief.mean + spread @ away)[1] @ spread
    precision = one + slopes.T @ slopes
    covariance = spread @ np.linalg.inv(precision) @ spread.T
    likely = -now - np.linalg.slogdet(precision)[1] / 2
    return belief.mean + spread @ away, np.asarray(covariance, np.float64), float(likely)

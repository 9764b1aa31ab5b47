"""What is expected of a model's errors before they are measured, as learnt on other tables.

The curve is log E|error| of a cell over the level u = log of its estimate m. On every table and with every method that
was tried, errors of cells of about half a row are about √m of it, and from there the curve rises with a slope of about
one half and bends down where large cells are known better (benchmarks/intervals.py). So the prior is a straight line
through that point, unsure in height and slope, with a random walk to either side, alike in all groups of marginals but
for a height and a walk of their own. Models that know their own errors (`own`) get that much closer.

The numbers below were chosen on six pairs of real tables and hold for others as far as these are like them; a
measurement soon outweighs them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.strata import EDGES

__all__ = ["KNOTS", "Belief", "CurvePrior", "Own", "between_knots"]

Floats = NDArray[np.float64]

_ENDS: Floats = np.log(np.array([0.01, *EDGES[1:], 1e7]))
KNOTS: Floats = np.sort(np.concatenate([_ENDS, (_ENDS[1:] + _ENDS[:-1]) / 2]))
"""Where the curve may bend: where strata begin, and in their middles."""
_PIVOT = float(np.log(0.5))
_FROM, _TO = float(np.log(0.5)), float(np.log(20.0))
"""Smaller marginals have larger errors where cells are small."""


@dataclass(frozen=True)
class CurvePrior:
    """Means and standard deviations, in natural logarithms; slopes and walks per unit of level."""

    height: float
    height_sd: float
    slope: float
    slope_sd: float
    walk_sd: float
    below: float = 0.35
    below_sd: float = 0.15
    """The slope below the pivot, beyond one half: nearly empty cells are mostly empty."""
    other: float = 0.25
    other_sd: float = 0.25
    """How much higher the curves of marginals with fewer columns begin."""
    own_walk_sd: float = 0.15


TELLING = CurvePrior(height=0.06, height_sd=0.25, slope=0.08, slope_sd=0.12, walk_sd=0.15)
"""For models that say how sure they are."""
SILENT = CurvePrior(
    height=0.4, height_sd=0.6, slope=0.05, slope_sd=0.15, walk_sd=0.25, other_sd=0.5, own_walk_sd=0.3
)
"""For all others."""


@dataclass(frozen=True)
class Own:
    """What a model's own standard errors say of its larger cells."""

    sizes: tuple[float, ...]
    """Mean estimates, of a few strata."""
    error: float
    """The geometric mean of what errors it expects there."""


_OWN_MORE, _OWN_SD = 0.08, 0.45
"""A model's own word is too small by so much, on average, and off by so much."""


@dataclass(frozen=True, eq=False)
class Belief:
    """Knots of all groups, one group after the other: mean and covariance."""

    mean: Floats
    covariance: Floats

    @staticmethod
    def before(groups: int, own: Own | None) -> "Belief":
        """The prior; the last group is that of the workload's largest marginals."""
        prior = SILENT if own is None else TELLING
        above, below = np.maximum(KNOTS - _PIVOT, 0.0), np.maximum(_PIVOT - KNOTS, 0.0)
        fades = np.clip((_TO - KNOTS) / (_TO - _FROM), 0.0, 1.0)
        line = 0.5 * KNOTS + prior.height + prior.slope * above - prior.below * below
        mean = np.concatenate([line + prior.other * fades * (g < groups - 1) for g in range(groups)])
        alike = prior.height_sd**2 + _walk(prior.walk_sd)
        alike += prior.slope_sd**2 * np.outer(above, above) + prior.below_sd**2 * np.outer(below, below)
        covariance = np.kron(np.ones((groups, groups)), alike)
        for g in range(groups):
            place = slice(g * len(KNOTS), (g + 1) * len(KNOTS))
            covariance[place, place] += prior.other_sd**2 * (g < groups - 1) + _walk(prior.own_walk_sd)
        belief = Belief(mean, covariance + 1e-6 * np.eye(len(mean)))
        return belief if own is None else belief._told(own)

    def _told(self, own: Own) -> "Belief":
        """After the model's own word on its larger cells."""
        place = np.zeros(len(self.mean))
        place[-len(KNOTS) :] = between_knots(np.log(own.sizes)).mean(axis=0)
        gain = self.covariance @ place / (place @ self.covariance @ place + _OWN_SD**2)
        mean = self.mean + gain * (np.log(own.error) + _OWN_MORE - place @ self.mean)
        covariance = self.covariance - np.outer(gain, place @ self.covariance)
        return Belief(mean, (covariance + covariance.T) / 2 + 1e-9 * np.eye(len(mean)))


def _walk(sd: float) -> Floats:
    """Covariance of a random walk away from the pivot, to either side."""
    away = KNOTS - _PIVOT
    same = np.multiply.outer(away, away) > 0
    return np.where(same, sd**2 * np.minimum.outer(np.abs(away), np.abs(away)), 0.0)


def between_knots(level: Floats) -> Floats:
    """[level, knot]: how much of each knot a level takes; beyond the last ones, the line goes on as it is."""
    right = np.clip(np.searchsorted(KNOTS, level, side="right"), 1, len(KNOTS) - 1)
    share = (level - KNOTS[right - 1]) / (KNOTS[right] - KNOTS[right - 1])
    weights = np.zeros((len(level), len(KNOTS)))
    rows = np.arange(len(level))
    weights[rows, right - 1], weights[rows, right] = 1 - share, share
    return weights

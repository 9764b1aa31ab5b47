"""What is expected of a model's errors before they are measured, as learnt on other tables.

The curve is log E|error| of a cell over the level u = log of its estimate m. On every table and with every method that
was tried, errors of cells of about half a row are about √m of it; what they are beyond that rises from there up to a
hundred rows or so and falls where large cells are known better (benchmarks/intervals.py). How steeply, the budget
decides, and whether there was a public table. A model that knows its own errors (`Own`) says more: little where cells
are small, and the more the larger they are. Below half a row the curve goes down to what a cell that seems empty may
hold (`missed`). Around all this lies a random walk to either side, alike in all groups of marginals but for a height
and a walk of their own. And the public table may be foreign: as long as the measurement cannot exclude that, bars
have to allow for it.

The numbers below were chosen on six pairs of real tables and hold for others as far as these are like them; a
measurement soon outweighs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.asked_tables import CONTRASTS
from openprior.error_bars.strata import EDGES, Sizes

__all__ = ["KNOTS", "Beforehand", "Belief", "CurvePrior", "Own", "between_knots", "missed", "worlds_before"]

Floats = NDArray[np.float64]

_ENDS: Floats = np.log(np.array([0.01, *EDGES[1:], 1e7]))
KNOTS: Floats = np.sort(np.concatenate([_ENDS, (_ENDS[1:] + _ENDS[:-1]) / 2]))
"""Where the curve may bend: where strata begin, and in their middles."""
_PIVOT = float(np.log(0.5))
_FROM, _TO = float(np.log(0.5)), float(np.log(20.0))
"""Smaller marginals have larger errors where cells are small."""
_FLAT = float(np.log(100.0))
"""Beyond, errors rise as the root does, or less."""
FOREIGN = 0.05
"""One public table in twenty may be of something else: then, if nothing is learnt that speaks against it, answers are
off by as much as they say."""
_LESS_KNOWN, _CONTRASTS_WALK = 0.4, 0.2
"""Where large cells are known better than their root, means within large groups are by so much of that only, in
logarithms; their own walk is at least so wide."""
_EMPTY = 0.1
"""A cell with a smaller estimate seems empty."""
_ONE, _FEW = 0.5, 3.0
"""A cell holds one row or so from that estimate on; hardly more below so many times the smallest of these."""
_MOST_MISSED = 0.5
_BELIEVED, _BELIEVED_MORE, _MOST_BELIEVED = 0.13, 0.1, 0.56
"""What share of a model's own word is believed (in logarithms, beyond the root) at one row, more per level, and at
most."""
_OWN_MORE, _OWN_FROM, _OWN_LESS = 0.1, 4.5, 0.08
"""It is too small by so much, and, per level from there on, less."""
_NOISE, _NOISE_FROM, _NOISE_MORE = 0.03, 2.5, 0.06
"""And by so much per e-fold of the noise, and, per level from there on, more."""


@dataclass(frozen=True)
class CurvePrior:
    """Means and standard deviations, in natural logarithms; slopes and walks per unit of level, `per_noise` for every
    e-fold of the noise."""

    height: float
    height_sd: float
    slope: float
    slope_sd: float
    walk_sd: float
    height_per_noise: float = 0.0
    slope_per_noise: float = 0.0
    missed: float = 0.7
    """What a cell that seems empty is off by, as a share of what it may hold."""
    below_sd: float = 0.15
    """Of the slope below the pivot."""
    other: float = 0.25
    other_sd: float = 0.25
    """How much higher the curves of marginals with fewer columns begin."""
    own_walk_sd: float = 0.15


TELLING = CurvePrior(
    height=0.0, height_sd=0.17, slope=0.0, slope_sd=0.03, walk_sd=0.08, missed=0.8, own_walk_sd=0.1
)
"""For models that began with a public table and say how sure they are: around what follows from that."""
TELLING_ALONE = CurvePrior(
    height=0.0,
    height_sd=0.25,
    slope=0.06,
    slope_sd=0.1,
    walk_sd=0.15,
    slope_per_noise=0.03,
    missed=0.8,
    other_sd=0.35,
    own_walk_sd=0.2,
)
"""For those that did not, and still say it: they know of noise, but not of what they never looked at."""
WITH_PUBLIC = CurvePrior(
    height=0.2,
    height_sd=0.35,
    slope=0.13,
    slope_sd=0.09,
    walk_sd=0.2,
    slope_per_noise=0.04,
    other_sd=0.4,
    own_walk_sd=0.22,
)
"""For others that began with a public table."""
WITHOUT = CurvePrior(
    height=0.3,
    height_sd=0.5,
    slope=0.22,
    slope_sd=0.1,
    walk_sd=0.25,
    height_per_noise=0.1,
    slope_per_noise=0.07,
    other_sd=0.5,
    own_walk_sd=0.3,
)
"""For others that did not."""


@dataclass(frozen=True)
class Own:
    """What a model's own standard errors say of its cells, by stratum."""

    sizes: tuple[float, ...]
    """Mean estimates, in rising order."""
    errors: tuple[float, ...]
    """The mean errors that it expects there."""


@dataclass(frozen=True)
class Beforehand:
    """What bears on the errors of a model and is known without asking for them."""

    public: bool
    """Whether it began with a public table."""
    noise: float
    """How much noise the whole budget leaves, as a multiple of a common one's (`expected_bars.bluntness`)."""
    own: Own | None = None


@dataclass(frozen=True, eq=False)
class Belief:
    """Knots of all groups, one group after the other: mean and covariance."""

    mean: Floats
    covariance: Floats

    @staticmethod
    def around(prior: CurvePrior, beyond: Floats, columns: Sequence[int], sizes: Sequence[Sizes]) -> "Belief":
        """Around errors that are by so much `beyond` the root, in groups of marginals with so many columns and such
        cells; the last group is that of the workload's largest marginals, and the first may be that of contrasts."""
        groups = len(columns)
        above, below = np.maximum(KNOTS - _PIVOT, 0.0), np.maximum(_PIVOT - KNOTS, 0.0)
        fades = np.clip((_TO - KNOTS) / (_TO - _FROM), 0.0, 1.0)
        at_pivot = float(np.interp(_PIVOT, KNOTS, beyond))
        means = []
        for g, (k, own) in enumerate(zip(columns, sizes, strict=True)):
            more = np.maximum(beyond, _LESS_KNOWN * beyond) if k == CONTRASTS else beyond
            line = 0.5 * (KNOTS - below) + np.where(below > 0, at_pivot, more)
            line = line + prior.other * fades * (g < groups - 1)
            means.append(np.log(np.exp(line) + prior.missed * missed(own)))
        alike = prior.height_sd**2 + _walk(prior.walk_sd)
        alike += prior.slope_sd**2 * np.outer(above, above) + prior.below_sd**2 * np.outer(below, below)
        covariance = np.kron(np.ones((groups, groups)), alike)
        for g in range(groups):
            place = slice(g * len(KNOTS), (g + 1) * len(KNOTS))
            walk = max(prior.own_walk_sd, _CONTRASTS_WALK) if columns[g] == CONTRASTS else prior.own_walk_sd
            covariance[place, place] += prior.other_sd**2 * (g < groups - 1) + _walk(walk)
        return Belief(np.concatenate(means), covariance + 1e-6 * np.eye(len(covariance)))


def worlds_before(
    columns: Sequence[int], sizes: Sequence[Sizes], known: Beforehand
) -> list[tuple[float, Belief]]:
    """What may be, and how likely each is: that things are as with other tables, or the public table is foreign."""
    noise = float(np.log(known.noise))
    if known.own is not None:
        prior = TELLING if known.public else TELLING_ALONE
        belief = Belief.around(prior, _told(known.own, noise) + _expected(prior, noise), columns, sizes)
    else:
        prior = WITH_PUBLIC if known.public else WITHOUT
        belief = Belief.around(prior, _expected(prior, noise), columns, sizes)
    if not known.public:
        return [(1.0, belief)]
    foreign = Belief.around(WITH_PUBLIC, np.logaddexp(0.5 * KNOTS, WITH_PUBLIC.height), columns, sizes)
    return [(1 - FOREIGN, belief), (FOREIGN, foreign)]


def _expected(prior: CurvePrior, noise: float) -> Floats:
    """What is expected beyond the root, by the budget."""
    height, slope = (
        first + more * noise
        for first, more in ((prior.height, prior.height_per_noise), (prior.slope, prior.slope_per_noise))
    )
    later = np.maximum(KNOTS - _FLAT, 0.0)
    expected: Floats = height + slope * (KNOTS - _PIVOT - later) + min(slope, 0.0) * later
    return expected


def _told(own: Own, noise: float) -> Floats:
    """What is expected beyond the root, by what the model says, which is believed the more, the larger cells are, and
    by the budget."""
    level = np.log(own.sizes)
    said = np.interp(KNOTS, level, np.log(own.errors) - 0.5 * level)
    believed = np.clip(_BELIEVED + _BELIEVED_MORE * KNOTS, 0.0, _MOST_BELIEVED)
    blunt = _NOISE + _NOISE_MORE * np.maximum(KNOTS - _NOISE_FROM, 0.0)
    expected: Floats = (
        _OWN_MORE - _OWN_LESS * np.maximum(KNOTS - _OWN_FROM, 0.0) + believed * said + blunt * noise
    )
    return expected


def missed(sizes: Sizes) -> float:
    """How many rows a cell that seems empty may hold, on average: as many rows as lie in cells that have hardly more
    than one, spread over all that seem empty (Good 1953); not above a half."""
    empty = sizes.cells[sizes.size < _EMPTY].sum()
    some = sizes.size >= _ONE
    if not empty or not some.any():
        return 0.0
    one = sizes.size[some].min()
    few = some & (sizes.size < _FEW * one)
    return float(min(sizes.cells[few].sum() * one / empty, _MOST_MISSED))


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

"""How far error bars will reach, before anything is spent: a guess from the budget alone.

It has the form of the curve that is believed before anything is measured (`curve_prior.py`): errors of cells of half a
row are about their root, and from there they grow with the cell. How fast, the budget decides: in runs of tilt on eight
pairs of real tables (one of them of two different states) and on the demo's surveys, with 1,000 to 300,000 rows and ε
from 0.3 to 10, the slope fell by the same for every e-fold of ε, and was smaller with a public table. The number of
rows, the columns and their sizes mattered little. Four of five reaches there were within a factor of 1.5 of the guess,
19 of 20 within 1.8. Other methods reach about as far as tilt without a public table (aim), or farther (mst).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openprior.error_bars.strata import level_of
from openprior.error_bars.widening import MEAN_TO_SD, tails_at
from openprior.privacy.unit import Unit

__all__ = ["BLUNTEST", "OFF_BY", "SIZES", "ExpectedReach", "bluntness", "expected_reaches"]

SIZES = (10, 100, 1000)
"""Cells of so many rows are told of."""
OFF_BY = 1.5
"""Four of five guesses were within this factor."""
_HEIGHT = 0.47
"""The logarithm of the mean error of a cell of half a row, beyond that of its root."""
_WITH, _WITHOUT = (-0.006, 0.068), (0.06, 0.091)
"""With a public table and without: the slope beyond one half where ρ is `_REFERENCE`, and how much it falls per e-fold
of ε."""
_STEEPEST = 0.5
"""Errors grow no faster than the cell, and do not fall."""
_REFERENCE = 0.015
"""The ρ of ε = 1 at δ = 1e-9, where a person has one row and another may be in its place."""
BLUNTEST = 1e6
"""No budget is more blunt, or less."""
_PIVOT = math.log(0.5)
_HALF_ROW = 0.5


@dataclass(frozen=True)
class ExpectedReach:
    """Of cells with about so many rows."""

    rows: int
    within: float
    """95 in 100 of their answers will be within ± so many rows of the true count, by this guess."""


def bluntness(rho: float, unit: Unit) -> float:
    """How many times as much noise a budget leaves as ε = 1 at δ = 1e-9 does where one row moves counts by √2; cut
    where that is beyond all use."""
    return min(max(math.sqrt(_REFERENCE * unit.l2_squared / (2 * rho)), 1 / BLUNTEST), BLUNTEST)


def expected_reaches(
    rho: float, unit: Unit, n: int, *, has_public: bool, sizes: Sequence[int] = SIZES
) -> tuple[ExpectedReach, ...]:
    """By the size of the cell, as far as it fits into a table of n rows.

    >>> made = expected_reaches(0.015, Unit(), 20_000, has_public=True)
    >>> [(r.rows, round(r.within, -1)) for r in made]
    [(10, 10.0), (100, 40.0), (1000, 140.0)]
    """
    slope, falls = _WITH if has_public else _WITHOUT
    slope = min(max(slope + falls * math.log(bluntness(rho, unit)), -_STEEPEST), _STEEPEST)
    level = level_of(np.array([float(s) for s in sizes]))
    error = np.exp(0.5 * level + _HEIGHT + slope * np.maximum(level - _PIVOT, 0.0))
    within = error * MEAN_TO_SD * tails_at(level) + _HALF_ROW
    return tuple(
        ExpectedReach(s, min(float(w), float(n))) for s, w in zip(sizes, within, strict=True) if s <= n
    )

"""Combining analyses of replicates: one figure and its interval, from the same analysis of every replicate.

Replicates vary around the release as the private table may. With B the variance of a figure between k of them, their
mean is off from the private table's own figure with variance (1 + 1/k)·B. Whoever speaks of the population that the
private table is a sample of adds the mean Ū of the variances that the analysis itself states (Rubin 1987). The
interval is that of Student's t, with k − 1 degrees of freedom, or Rubin's.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.display import Sheet, Shown
from openprior.errors import OptionError
from openprior.given import several

__all__ = ["Combined", "combine"]

Floats = NDArray[np.float64]

_MANY = 1e5
"""Degrees of freedom beyond which it is the normal distribution's."""


@dataclass(frozen=True, eq=False, repr=False)
class Combined(Shown):
    """Figures with their intervals."""

    names: tuple[str, ...]
    estimate: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    degrees: Floats
    """Of freedom; infinite where replicates do not differ."""

    def sheet(self) -> Sheet:
        """One row per figure."""
        rows = tuple(
            (name, *(f"{part[i]:.6g}" for part in (self.estimate, self.standard_error, self.low, self.high)))
            for i, name in enumerate(self.names)
        )
        return Sheet("Combined", ("", "estimate", "standard error", "low", "high"), rows)


def combine(estimates: Sequence[Any], variances: Sequence[Any] | None = None) -> Combined:
    """One figure, or several, of every replicate: numbers, lists of them, or mappings of names to them.

    estimates  the analysis of each replicate, two at least
    variances  what the analysis says of each figure's sampling variance, in the same form: then the interval is that
               of the population's figure; without, that of the private table's own

    >>> found = combine([1.0, 2.0, 3.0])
    >>> float(found.estimate[0]), round(float(found.standard_error[0]), 3)
    (2.0, 1.155)
    """
    names, figures = _figures("estimates", estimates)
    k = len(figures)
    if k < 2:
        raise OptionError(
            "there are fewer than two replicates to combine; make 20 with release.replicates(20)"
        )
    between = (1 + 1 / k) * figures.var(axis=0, ddof=1)
    total, degrees = between, np.full(figures.shape[1], k - 1.0)
    if variances is not None:
        own, sampled = _figures("variances", variances)
        if own != names or sampled.shape != figures.shape or (sampled < 0).any():
            raise OptionError(
                "variances do not fit the estimates; give a number that is not negative for each, in the same form"
            )
        within = sampled.mean(axis=0)
        total = between + within
        with np.errstate(divide="ignore"):
            degrees = np.where(
                between > 0, (k - 1) * (1 + within / np.where(between > 0, between, 1)) ** 2, np.inf
            )
    error = np.sqrt(total)
    reach = np.array([_t95(d) for d in degrees]) * error
    mean = figures.mean(axis=0)
    return Combined(names, mean, error, mean - reach, mean + reach, degrees)


def _figures(what: str, given: Sequence[Any]) -> tuple[tuple[str, ...], Floats]:
    """[replicate, figure], and the figures' names."""
    listed = list(several(what, given))
    if not listed:
        raise OptionError(f"there are no {what} to combine; give those of each replicate")
    if all(isinstance(g, Mapping) for g in listed):
        names = tuple(map(str, listed[0]))
        if any(tuple(map(str, g)) != names for g in listed):
            raise OptionError(
                f"{what} of different replicates have different names; give all of them the same"
            )
        listed = [list(g.values()) for g in listed]
    else:
        names = ()
    try:
        figures = np.array([np.atleast_1d(np.asarray(g, dtype=np.float64)) for g in listed])
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"{what} cannot be combined; give numbers, as many for every replicate") from None
    if figures.ndim != 2 or not np.isfinite(figures).all():
        raise OptionError(f"{what} cannot be combined; give finite numbers, as many for every replicate")
    return names or tuple(str(i) for i in range(1, figures.shape[1] + 1)), figures


def _t95(degrees: float) -> float:
    """The 97.5 % point of Student's t: √d·tan θ, with 95 in 100 of the area of cos^(d−1) from 0 to π/2 below θ."""
    if degrees > _MANY:
        return 1.959963984540054
    angle = np.linspace(0.0, np.pi / 2, 20_001)
    height = np.cos(angle[:-1] / 2 + angle[1:] / 2) ** (degrees - 1)
    area = np.append(0.0, np.cumsum(height))
    return math.sqrt(degrees) * math.tan(float(np.interp(0.95 * area[-1], area, angle)))

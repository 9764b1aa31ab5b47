"""What measurements alone say about a marginal's true counts: values without bias, and 95 % intervals.

The noise of a measurement is known exactly, whatever became of it in a model. So where a marginal was measured, or is
the sum of cells that were, its true counts have a confidence interval that rests on nothing else: not on the public
table, not on the model, and not on why it was chosen, because noise is drawn after the choice. Where nothing was
measured there is none. True counts are those of the rows that were counted: where a person may have more rows than the
schema's limit, of the rows that are left.

One thing could spoil it: a mechanism that measures the same cell again *because* of what came out, until it likes the
mean. Repeats of the mechanisms here follow from how wrong the model is elsewhere, and coverage is tested for each.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from openprior.questions.workload import Marginal
from openprior.releases.measurements import Measurements

__all__ = ["Known", "known_about"]

Floats = NDArray[np.float64]

_Z95 = 1.959963984540054
_TAIL = (_Z95**3 - 3 * _Z95) / 24
"""How much further the 97.5 % point lies, in standard deviations, per unit of excess kurtosis (Cornish and Fisher)."""
_LAPLACE_KURTOSIS = 3.0
_HALF_ROW = 0.5
"""Counts and noise are whole numbers; so much more on either side, and rounding never takes coverage away."""


@dataclass(frozen=True, eq=False)
class Known:
    """What measurements alone say about the cells of a marginal; nan where they say nothing."""

    value: Floats
    """Without bias: the mean of all that tell it, by their precision."""
    standard_error: Floats
    low: Floats
    high: Floats
    """95 % interval of the true count, which is not negative: cut at 0 below, and a value below 0 counts as 0 above, so
    that an unlucky draw does not look like certainty."""


def known_about(measurements: Measurements, marginal: Marginal) -> Known | None:
    """What measurements say about a marginal, or None if nothing.

    The value of a cell is Σ wᵢyᵢ/Σ wᵢ over the measurements that tell it, wᵢ = 1/(kᵢσᵢ²), kᵢ the cells that were
    added up for it. Its noise has mean 0 and variance 1/Σ wᵢ. It is a sum of Gaussian and Laplace noise; heavier
    tails than a Gaussian's are allowed for by their kurtosis.
    """
    domain, columns = measurements.domain, set(marginal)
    shape = tuple(domain[a] for a in marginal)
    precision, weighted, fourth = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for item in measurements:
        counted = item.cells(domain)
        if counted is None:
            continue
        free, fixed = counted
        if not fixed.keys() <= columns <= fixed.keys() | set(free):
            continue
        place = tuple(fixed.get(a, slice(None)) for a in marginal)
        summed = tuple(i for i, a in enumerate(free) if a not in columns)
        table = item.values.reshape([domain[a] for a in free]).sum(axis=summed)
        cells = prod(domain[free[i]] for i in summed)
        variance = cells * item.sigma**2
        precision[place] += 1 / variance
        weighted[place] += table / variance
        if item.noise == "laplace":
            fourth[place] += _LAPLACE_KURTOSIS * cells * item.sigma**4 / variance**4
    if not precision.any():
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        value, error = (weighted / precision).reshape(-1), (1 / np.sqrt(precision)).reshape(-1)
        kurtosis = (fourth / precision**2).reshape(-1)
        error[~np.isfinite(error)] = np.nan
        reach = (_Z95 + _TAIL * kurtosis) * error + _HALF_ROW
        return Known(value, error, np.maximum(value - reach, 0.0), np.maximum(value, 0.0) + reach)

"""The step that all values are multiples of: cents, whole hundreds, minutes. It is the column's precision.

>>> import numpy as np
>>> common_step(np.array([0.25, 1.5, 12.75])), common_step(np.array([0.1, 0.2, 0.33]))
(0.25, 0.01)
>>> common_step(np.array([0.1, np.pi])) is None
True
"""

import itertools
import math

import numpy as np
import numpy.typing as npt

from openprior.schema.precision import MOMENTS, Precision

__all__ = ["common_step", "fine_step", "moment_step"]

_MANY = 20  # fewer values may be multiples of a large number by chance
_LOOKS_FINE = 1e-4
"""Of the largest number: a step of which nobody sees that there is one."""
_COARSEST, _FINEST = 6, -6  # powers of ten

Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]


def common_step(values: Numbers, *, relative: float = 1e-15) -> float | None:
    """The largest of 1, 2.5 and 5 times a power of ten that all values are multiples of; a whole one of integers."""
    whole = values.dtype.kind in "iu"
    largest = float(np.abs(values).max())
    for power, base in itertools.product(range(_COARSEST, _FINEST - 1, -1), (5.0, 2.5, 1.0)):
        step = float(f"{base:g}e{power}")
        if step > largest or (step > 1 and len(values) < _MANY):
            continue
        if whole and not step.is_integer():
            continue
        precision = Precision.of(step)
        if not precision.holds(largest):
            return None
        near = precision.values(precision.nearest(values))
        if (np.abs(near - values) <= relative * 4 * np.abs(values)).all():
            return step
    return None


def fine_step(values: Numbers, own: Numbers) -> float | None:
    """A power of ten for numbers of any precision: so fine that each of `own` has the numbers up to the next value for
    itself and that the others look as they are, but not so fine that single precision could not tell them apart."""
    ordered = np.sort(values)
    places = np.searchsorted(ordered, own, side="right")
    inner = places < len(ordered)
    gaps = ordered[places[inner]] - own[inner]
    largest = float(np.abs(values).max())
    gap = min(float(gaps.min()) if gaps.size else 1.0, largest * _LOOKS_FINE)
    least = max(float(np.abs(own).max()) * 1e-6, largest * 1e-14, 1e-12)
    step = float(f"1e{math.floor(math.log10(max(gap, least)))}")
    step = step if step >= least else step * 10
    return step if Precision.of(step).holds(largest) else None


def moment_step(ticks: npt.NDArray[np.int64], *, coarsest: str = "day") -> str | None:
    """The largest unit that all moments are whole multiples of, if there is one."""
    units = list(MOMENTS)
    for unit in units[units.index(coarsest) :]:
        if not (ticks % MOMENTS[unit]).any():
            return unit
    return None

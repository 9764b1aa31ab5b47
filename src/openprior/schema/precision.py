"""The precision of numbers: multiples of a step, the way a person writes them.

Income is known to the cent, age to the year, a visit to the minute. A value that is drawn inside a bin lies on the same
grid, so that it looks like the column. Multiples of a decimal step are reckoned as whole numbers and divided once, by a
power of ten: 3 · 0.1 is 0.3 here, and not 0.30000000000000004.

>>> cents = Precision.of(0.01)
>>> cents.values(np.array([3, 29, -7])).tolist()
[0.03, 0.29, -0.07]
>>> cents.first_from(np.array([0.1, 0.111])).tolist(), cents.last_below(np.array([0.1, 0.111])).tolist()
([10, 12], [9, 11])
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["MOMENTS", "Precision"]

MOMENTS = {"day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
"""The steps of dates and times, in microseconds."""

_EXACT = 2**53  # up to here a double is every whole number

Places = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Precision:
    """The multiples of `units` · 10^-`places`."""

    units: int
    places: int

    @classmethod
    def of(cls, step: float) -> "Precision":
        """Of a step as it is written: 0.01 is one hundredth, not the double that is nearest to it."""
        written = Decimal(repr(float(step)))
        _, _, exponent = written.as_tuple()
        assert isinstance(exponent, int)
        places = max(0, -exponent)
        return cls(int(written.scaleb(places)), places)

    def holds(self, largest: float) -> bool:
        """Whether its multiples up to this are exact: beyond it doubles are too coarse."""
        return self.places <= 22 and max(abs(largest), 1.0) * 10.0**self.places * 2 < _EXACT

    def values(self, multiples: npt.NDArray[Any]) -> Values:
        """The numbers that are so many steps: one division of exact numbers, so each is the nearest double."""
        return np.asarray(multiples * self.units / 10.0**self.places)

    def nearest(self, values: npt.NDArray[Any]) -> Places:
        """How many steps each number is, to the nearest."""
        return np.asarray(np.rint(values * 10.0**self.places / self.units).astype(np.int64))

    def first_from(self, edges: npt.NDArray[Any]) -> Places:
        """The first multiple that is not below each edge."""
        near = self.nearest(edges)
        return near + (self.values(near) < edges)

    def last_to(self, edges: npt.NDArray[Any]) -> Places:
        """The last multiple that is not above each edge."""
        near = self.nearest(edges)
        return near - (self.values(near) > edges)

    def last_below(self, edges: npt.NDArray[Any]) -> Places:
        """The last multiple below each edge."""
        near = self.nearest(edges)
        return near - (self.values(near) >= edges)

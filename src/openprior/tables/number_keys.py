"""Numbers that values are compared with: labels that are numbers, signs for missing, and whole edges.

What a value is does not depend on the values beside it in a batch. Signs for missing are compared one by one; labels
are a list of integers, or of doubles if one of them is no integer.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from openprior.schema.columns import INT64, Label

__all__ = ["Signs", "places_among", "rounded", "sorted_numbers", "whole_between"]

Mask = npt.NDArray[np.bool_]


def sorted_numbers(values: Iterable[Label]) -> npt.NDArray[Any]:
    """Integers of 64 bits as such, unless there are others among them."""
    found = sorted(values)
    whole = all(isinstance(value, int) and value in INT64 for value in found)
    return np.array(found, np.int64 if whole else np.float64)


class Signs:
    """Numbers that mean missing. Integers are compared as such, whatever stands beside them: as doubles, with a
    fraction or infinity in the list or in some other row, 2⁵³ + 1 would be 2⁵³."""

    def __init__(self, signs: Iterable[int | float]) -> None:
        signs = set(signs)
        whole = {s for s in signs if isinstance(s, int) and s in INT64}
        self._whole = np.array(sorted(whole), np.int64)
        self._real = np.array(sorted(signs - whole), np.float64)

    def __bool__(self) -> bool:
        return bool(self._whole.size or self._real.size)

    def among(self, values: npt.NDArray[Any], precision: npt.DTypeLike = np.float64) -> Mask:
        """Which of the values are signs. One that a narrower float type has no room for is none of its infinities."""
        found = np.zeros(len(values), np.bool_)
        narrow = rounded(self._real, precision)
        narrow = narrow[np.isfinite(narrow) | np.isinf(self._real)]
        for signs in (self._whole, narrow):
            if signs.size:
                found |= ~places_among(signs, values)[1]
        return found


def places_among(keys: npt.NDArray[Any], values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.intp], Mask]:
    """Where the values are among sorted keys, and which are not there; without rounding."""
    odd = np.zeros(len(values), np.bool_)
    if keys.dtype.kind == "i" and values.dtype.kind == "f":
        # A double that is no integer of 64 bits is no key; the others are compared as integers.
        odd = (values != np.floor(values)) | ~_fits(values)
        values = np.where(odd, 0.0, values).astype(np.int64)
    elif keys.dtype.kind == "f" and values.dtype.kind == "i":
        # Neither is an integer that is no double.
        whole, values = values, values.astype(np.float64)
        odd = ~_fits(values)
        odd |= np.where(odd, 0.0, values).astype(np.int64) != whole
    places = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
    return places, odd | (keys[places] != values)


def whole_between(values: npt.NDArray[Any], low: int, high: int) -> tuple[npt.NDArray[np.int64], Mask, Mask]:
    """Numbers rounded down to integers between two others; which were below the first, and which above the second."""
    if values.dtype.kind == "i":
        return np.clip(values, low, high), values < low, values > high
    fits = _fits(values)
    # A number is below an integer if the integer below it is, and above one if the integer above it is.
    under, over = (np.where(fits, end(values), 0.0).astype(np.int64) for end in (np.floor, np.ceil))
    below = np.where(fits, under < low, values < 0)
    above = np.where(fits, over > high, values > 0)
    return np.where(below, low, np.where(above, high, np.clip(under, low, high))), below, above


def _fits(values: npt.NDArray[np.float64]) -> Mask:
    """Which doubles are within the integers of 64 bits."""
    found: Mask = (values >= -(2.0**63)) & (values < 2.0**63)
    return found


def rounded(edges: npt.NDArray[Any], precision: npt.DTypeLike) -> npt.NDArray[Any]:
    """Edges as a narrower float type has them, so that 0.1 read from float32 is not beside the edge 0.1."""
    if edges.dtype.kind != "f" or precision == np.float64:
        return edges
    with np.errstate(over="ignore"):
        return edges.astype(precision).astype(np.float64)

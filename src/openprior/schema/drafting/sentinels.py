"""Numbers that stand for no number: -9, 999, 99999. They look like any other, and spoil every mean.

>>> import numpy as np
>>> sentinels(np.array([0, 1, 17, 44, 999])).tolist(), sentinels(np.array([-99, -9, 0, 5, 60])).tolist()
([999], [-99, -9])
>>> sentinels(np.array([50, 70, 90, 99])).tolist()
[]
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["sentinels"]

_LIKELY = np.array(
    [sign * int(str(digit) * length) for length in range(1, 10) for digit in (7, 8, 9) for sign in (-1, 1)]
    + [sign * (10**length - 2) for length in range(2, 10) for sign in (-1, 1)]
    + [-1]
)
_TWO_DIGITS = 10  # 7, 8 and 9 alone are numbers like others, unless they are negative


def sentinels(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those of the distinct values that are far from the rest: a repeated 9, 8 or 7 that is further from it than the
    rest is wide, or that is negative where nothing else is."""
    likely = np.isin(values, _LIKELY)
    rest, found = values[~likely], np.sort(values[likely])
    # What is not far belongs to the rest, which may then be wider: look until nothing more does.
    while len(found) and len(rest) > 1:
        far = _is_far(found.astype(np.float64), float(rest.min()), float(rest.max()))
        if far.all():
            return found
        rest, found = np.append(rest, found[~far]), found[far]
    return values[:0]


def _is_far(found: npt.NDArray[np.float64], low: float, high: float) -> npt.NDArray[np.bool_]:
    away = np.maximum(found - high, low - found)
    is_code = np.abs(found) >= _TWO_DIGITS
    far: npt.NDArray[np.bool_] = (is_code & (away >= high - low)) | ((low >= 0) & (found < 0))
    return far

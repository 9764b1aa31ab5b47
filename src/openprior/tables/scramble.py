"""Words of 64 bits that look random: the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["scrambled"]

Words = npt.NDArray[np.uint64]


def scrambled(words: Any) -> Words:
    """A bijection of 64-bit words in which every bit moves every other; no secret is hidden by it."""
    with np.errstate(over="ignore"):
        words = words + np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found: Words = words ^ (words >> np.uint64(31))
    return found

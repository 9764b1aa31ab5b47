"""Which values of a column are too rare to be told from noise, and what becomes of them.

A value is rare if its noisy count is below three standard deviations of the noise (fewer where a method says so). The
rare values of a column become one group, as in the NIST contest's MST (McKenna, Miklau & Sheldon 2021); where values
have an order, rare values become ranges in that order (values between them that stand out stay as they are), each as
short as it can be for its noisy sum to stand out. Noisy counts alone are looked at.
"""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["STANDS_OUT", "group_rare", "shares_within"]

Floats = NDArray[np.float64]

STANDS_OUT = 3.0
"""Standard deviations of the noise from which a count is more than noise."""


def group_rare(
    counts: Floats, sigma: float, ordered: int = 0, *, least: float = STANDS_OUT
) -> tuple[int, ...]:
    """The group of every code, numbered as they first occur; the first `ordered` codes have an order, and a count
    stands out from `least` standard deviations on.

    Other and missing, which come after those, are no neighbours of anything and stay as they are.

    >>> group_rare(np.array([50.0, 1.0, 60.0, 2.0, -1.0]), sigma=1.0)
    (0, 1, 2, 1, 1)
    >>> group_rare(np.array([50.0, 2.0, 2.5, 60.0, 2.0, 2.9, 1.0, 0.0]), sigma=1.0, ordered=7)
    (0, 1, 1, 2, 3, 3, 3, 4)
    """
    rare = counts < least * sigma
    rare[ordered if ordered else len(counts) :] = False
    codes = [int(c) for c in np.flatnonzero(rare)]
    home = list(range(len(counts)))  # each code's group, by the first code in it
    for together in _ranges(codes, counts, least * sigma) if ordered else [codes]:
        for code in together:
            home[code] = together[0]
    number = {first: i for i, first in enumerate(dict.fromkeys(home))}
    return tuple(number[first] for first in home)


def _ranges(codes: list[int], counts: Floats, least: float) -> list[list[int]]:
    """Rare codes in order, cut where the noisy sum since the last cut stands out; what is left joins the last range."""
    ranges: list[list[int]] = []
    open_range: list[int] = []
    for code in codes:
        open_range.append(code)
        if counts[open_range].sum() >= least * math.sqrt(len(open_range)):
            ranges.append(open_range)
            open_range = []
    if open_range and ranges:
        ranges[-1] += open_range
    elif open_range:
        ranges.append(open_range)
    return ranges


def shares_within(counts: Floats, groups: tuple[int, ...], sigma: float) -> Floats:
    """The share of its group that each value has: by the noisy counts as far as they differ by more than noise.

    The counts of a group are drawn towards their mean by the part of their variance that the noise explains, all the
    way if it explains all of it (James & Stein): then every value has the same share.

    >>> shares_within(np.array([50.0, 2.0, 1.0]), (0, 1, 1), sigma=1.0).tolist()
    [1.0, 0.5, 0.5]
    """
    shares, home = np.ones(len(counts)), np.array(groups)
    for group in range(int(home.max()) + 1):
        members = np.flatnonzero(home == group)
        if len(members) == 1:
            continue
        own = counts[members]
        variance = float(own.var(ddof=1))
        kept = max(0.0, 1 - sigma**2 / variance) if variance > 0 else 0.0
        likely = np.maximum(own.mean() + kept * (own - own.mean()), 0.0)
        whole = float(likely.sum())
        shares[members] = likely / whole if whole > 0 else 1 / len(members)
    return shares

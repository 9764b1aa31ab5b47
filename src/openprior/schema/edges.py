"""Bin edges from public quantiles: about equally many rows in each bin, at numbers a person would write.

An edge is rounded to the coarsest decimal that moves it by less than a tenth of its bin, so that income is
cut at 12000 and not at 11987.3. Rounding moves edges a little off the quantile, which costs nothing.

>>> quantile_edges(np.arange(1000), np.ones(1000), 4, whole=True)
[0, 250, 500, 750, 999]
"""

import math
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["FIRST_MOMENT", "LAST_MOMENT", "few", "heavy", "moment_of", "quantile_edges", "tallied"]

_EPOCH = datetime(1970, 1, 1)
# What Python's dates can hold, in microseconds: the years 1 to 9999.
FIRST_MOMENT, LAST_MOMENT = (
    (end - _EPOCH) // timedelta(microseconds=1) for end in (datetime.min, datetime.max)
)


def few(values: npt.NDArray[Any], counts: npt.NDArray[Any], limit: int) -> bool:
    """Whether the distinct values are so few, and so often repeated, that each deserves its own code."""
    return len(values) == 1 or (len(values) <= limit and 4 * len(values) <= counts.sum())


def heavy(counts: npt.NDArray[Any], bins: int) -> npt.NDArray[np.intp]:
    """Which values would fill a bin by themselves (zero incomes, say): they get their own, up to half of all."""
    return np.flatnonzero(counts * bins >= counts.sum())[: bins // 2]


def tallied(
    places: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Each place once, in order, with all its rows."""
    own, where = np.unique(places, return_inverse=True)
    return own, np.bincount(where, counts).astype(np.int64)


def quantile_edges(
    values: npt.NDArray[Any],
    counts: npt.NDArray[Any],
    bins: int,
    *,
    whole: bool,
    nice: bool = True,
    outward: bool = False,
    limit: int = 2**62,
) -> list[int] | list[float]:
    """At most `bins` bins over distinct values with counts; at least two values are needed.

    `nice` rounds the inner edges, `outward` the outer ones of whole numbers, too; those of reals always are. Edges of
    whole numbers may go to the `limit`: a last number that fills a bin by itself also has the edge after it.
    """
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    low = values[0].item()
    alone = heavy(counts, bins)
    own, high = _own_edges(values, alone, limit if whole else None)
    while len(own) >= bins and len(alone):  # the lightest has to do without
        alone = np.delete(alone, np.argmin(counts[alone]))
        own, high = _own_edges(values, alone, limit if whole else None)
    light = np.ones(len(values), np.bool_)
    light[alone] = False
    light_bins = max(bins - len(own), 1)
    share = np.cumsum(counts * light) / max((counts * light).sum(), 1)
    places = np.searchsorted(share, np.arange(1, light_bins) / light_bins, side="right")
    inner = np.unique(np.concatenate([values[np.minimum(places, len(values) - 1)], own]))
    inner = inner[(inner > low) & (inner < high)]
    edges = np.concatenate([[low], inner, [high]])
    with np.errstate(over="ignore"):
        gaps = np.diff(edges) if nice else np.zeros(len(edges) - 1)
    exact = set(own.tolist())
    rounded = [
        edge if edge in exact else _nice(edge, min(a, b))
        for edge, a, b in zip(inner.tolist(), gaps[:-1], gaps[1:], strict=True)
    ]
    if whole:
        inside = sorted({round(edge) for edge in rounded})
        first, last = int(low), int(high)
        if outward:
            first = min(first, int(_outward(low, gaps[0], math.floor)))
            last = max(last, int(_outward(high, gaps[-1], math.ceil)))
        return [first, *(e for e in inside if low < e < high), last]
    start, end = _outward(low, gaps[0], math.floor), _outward(high, gaps[-1], math.ceil)
    return [start, *(e for e in sorted(set(rounded)) if start < e < end), end]


def _own_edges(
    values: npt.NDArray[Any], alone: npt.NDArray[np.intp], limit: int | None
) -> tuple[npt.NDArray[Any], Any]:
    """The inner edges of values that have a bin of their own, and the last edge; without a limit, of reals."""
    high = values[-1].item()
    if limit is None:
        own = np.concatenate([values[alone], values[np.minimum(alone + 1, len(values) - 1)]])
    else:
        own = np.concatenate([values[alone], values[alone] + 1, _beside_far_ones(values, alone)])
        if len(values) - 1 in alone and high < limit:
            high += 1
        elif len(values) - 1 in alone:
            own = np.append(own, high - 1)
    return np.unique(own[(own > values[0]) & (own < high)]), high


def _beside_far_ones(values: npt.NDArray[Any], alone: npt.NDArray[np.intp]) -> npt.NDArray[Any]:
    """Edges that keep the bins beside a value of its own from reaching all the way to it, where it is further from the
    rest than the rest is wide: the year 9999 for no end."""
    places = values.astype(np.float64)
    after, before = alone[alone > 0], alone[alone < len(values) - 1]
    above = after[places[after] - places[after - 1] > places[after - 1] - places[0]]
    below = before[places[before + 1] - places[before] > places[-1] - places[before + 1]]
    return np.concatenate([values[above - 1] + 1, values[below + 1]])


def _unit(gap: float) -> int:
    """The decimal place that is at most a tenth of the gap, as a power of ten."""
    return math.floor(math.log10(gap)) - 1


def _nice(edge: float, gap: float) -> float:
    return round(edge, -_unit(float(gap))) if 0 < gap < math.inf else edge


def _outward(edge: float, gap: float, towards: Any) -> float:
    """The end rounded away from the data; kept as it is where floats are too coarse for that."""
    if not 1e-300 < gap < 1e300:
        return edge
    place = -_unit(float(gap))
    scale = 10.0**place
    moved = round(towards(edge * scale) / scale, place) if math.isfinite(edge * scale) else edge
    ok = moved <= edge if towards is math.floor else moved >= edge
    return float(moved if ok else edge)


def moment_of(ticks: int, kind: pa.DataType) -> date | time:
    """The date, time of day or timestamp at so many microseconds; a time past the day's end is its last."""
    if pa.types.is_time(kind):
        return (_EPOCH + timedelta(microseconds=min(ticks, 86_399_999_999))).time()
    moment = _EPOCH + timedelta(microseconds=min(ticks, LAST_MOMENT))
    if getattr(kind, "tz", None):
        return moment.replace(tzinfo=UTC)
    return moment.date() if pa.types.is_date(kind) else moment

"""Counts, means, shares, ratios and quantiles by group, each with how far it may be off.

How far a count is off, calibrated error bars say by themselves, or measurements do. A mean within a group is off by a
contrast over the group's rows (`error_bars/contrasts.py`), whose errors were measured, too: in standard deviations of
the group's values they follow a curve over how many rows it has. A share is the mean of ones and zeros; a ratio of two
sums is off as the mean of a − R·b is; a quantile is where the share below it may be what was asked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.bars import ErrorBars
from openprior.models.base import Flags, Model
from openprior.questions.workload import Marginal
from openprior.releases.group_tables import GroupTable
from openprior.schema.base import Schema
from openprior.tables.table import Table

__all__ = [
    "CALIBRATED",
    "EXACT",
    "FEWEST",
    "MEASURED",
    "NONE",
    "Asked",
    "Found",
    "as_answered",
    "counts_of",
    "means",
    "quantiles",
    "ratios",
    "shares",
    "shares_of_all",
]

Floats = NDArray[np.float64]

FEWEST = 1.0
"""Of a group with fewer rows nothing is told but how few there are."""
NONE, MEASURED, CALIBRATED, EXACT = np.int8(0), np.int8(2), np.int8(3), np.int8(4)
"""The bases, as in `answers.py`; exact is what is public."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a release is asked through: its model, its schema, its bars, and its rows."""

    model: Model
    schema: Schema
    bars: ErrorBars | None
    rows: int | None
    """How many rows the private table has, where that is public."""
    is_exact: bool
    """Whether the noise of every answer is known exactly, so that no errors were measured."""
    codes: Callable[[], Table]
    """The released rows as codes."""
    values: Callable[[str], Floats]
    """The released values of a column, as numbers; nan where there is none."""
    cells: Callable[[Marginal], tuple[NDArray[Any], ...]]
    """Of a marginal's cells: estimate, standard error, low, high and basis, as the answers have them."""


@dataclass(frozen=True, eq=False)
class Found:
    """Of every group: the estimate, its standard error, and how far its interval goes down and up."""

    estimate: Floats
    error: Floats
    down: Floats
    up: Floats
    basis: NDArray[np.int8] | None = None
    """What that rests on, where it is not the calibrated bars."""


def as_answered(asked: Asked, groups: Sequence[str], marginal: Marginal, fixed: Mapping[str, int]) -> Found:
    """Counts of whole cells, which may have been measured, as the answers have them; other columns than those of the
    groups have one value."""
    shape = [asked.schema.domain[a] for a in marginal]
    place = tuple(fixed.get(a, slice(None)) for a in marginal)
    left = [a for a in marginal if a not in fixed]
    order = [left.index(a) for a in groups]
    numbers = [part.reshape(shape)[place].transpose(order).reshape(-1) for part in asked.cells(marginal)]
    estimate, error, low, high, basis = numbers
    return Found(estimate, error, estimate - low, high - estimate, basis)


def counts_of(asked: Asked, table: GroupTable, rows: Floats) -> Found:
    """How many rows every group has."""
    bars = asked.bars
    nothing = np.full(len(rows), np.nan)
    if not table.marginal and asked.rows is not None:
        exact = np.zeros(1)
        return Found(np.array([float(asked.rows)]), exact, exact, exact, np.array([EXACT]))
    if not table.marginal or bars is None or not bars.tells(table.marginal):
        return Found(rows, nothing, nothing, nothing)
    known = [c for c in bars.columns if c > 0]
    around = bars.around(rows, min(known, key=lambda c: abs(c - len(table.marginal))))
    around = around.among(asked.rows, rows)
    return Found(rows, around.standard_error, rows - around.low, around.high - rows)


def means(asked: Asked, counts: Floats, numbers: Floats, ends: tuple[float, float]) -> Found:
    """Of numbers [value], of rows [group, value]; no mean lies beyond the ends."""
    rows = counts.sum(axis=1)
    share = counts / np.maximum(rows, 1e-9)[:, None]
    mean = np.where(rows >= FEWEST, share @ numbers, np.nan)
    spread = np.sqrt((share * (numbers - mean[:, None]) ** 2).sum(axis=1))
    # Rows that are all alike are not for sure: one row more may lie at the other end.
    some = np.maximum(rows, 1.0)
    spread = np.maximum(spread, np.ptp(numbers) * np.sqrt(1 / some * (1 - 1 / (some + 1))))
    error, far = _off(asked, rows)
    width = far * spread
    down, up = (np.minimum(width, np.maximum(room, 0.0)) for room in (mean - ends[0], ends[1] - mean))
    return Found(mean, error * spread, down, up)


def _off(asked: Asked, rows: Floats) -> tuple[Floats, Floats]:
    """How far a mean over so many rows is off, and its interval goes, in standard deviations of what is averaged; nan
    where there is hardly a row."""
    nothing = np.full(len(rows), np.nan)
    if asked.bars is None or not asked.bars.has_contrasts:
        return nothing, nothing
    error, far = asked.bars.contrast(rows)
    some = np.where(rows >= FEWEST, rows, np.nan)
    return error / some, far / some


def shares(asked: Asked, table: GroupTable, values: Flags | None) -> Found:
    """Of some values together, or of each value of the column by itself."""
    counts = table.counts
    parts = np.eye(counts.shape[1]) if values is None else values.astype(np.float64)[:, None]
    rows = counts.sum(axis=1)
    share = (counts @ parts) / np.maximum(rows, 1e-9)[:, None]
    share[rows < FEWEST] = np.nan
    error, far = _off(asked, rows)
    # A share of nearly nothing, or of nearly all, is not as sure as √(p(1 − p)) says: one row more or less is possible.
    least = np.minimum(1.0 / np.maximum(rows, 1.0), 0.5)[:, None]
    kept = np.clip(share, least, 1 - least)
    spread = np.sqrt(kept * (1 - kept))
    width = far[:, None] * spread
    down, up = np.minimum(width, share), np.minimum(width, 1 - share)
    flat = [a.reshape(-1) for a in (share, error[:, None] * spread, down, up)]
    return Found(*flat)


def shares_of_all(asked: Asked, name: str, code: int | None = None) -> Found:
    """Of each value among all rows, if the model has as many as there are: its count, over that; or of one value."""
    inside = slice(None) if code is None else slice(code, code + 1)
    estimate, error, low, high, basis = (part[inside] for part in asked.cells((name,)))
    n = max(asked.model.total, 1e-9)
    down, up = np.minimum(estimate - low, estimate) / n, np.minimum(high - estimate, n - estimate) / n
    return Found(estimate / n, error / n, down, up, basis)


def ratios(asked: Asked, table: GroupTable, first: Floats, second: Floats) -> Found:
    """Σa/Σb over the rows that have both."""
    has = np.isfinite(first)[:, None] & np.isfinite(second)[None, :]
    a, b = np.broadcast_arrays(first[:, None], second[None, :])
    counts = table.counts.reshape(len(table.counts), -1)[:, has.reshape(-1)]
    a, b = a.reshape(-1)[has.reshape(-1)], b.reshape(-1)[has.reshape(-1)]
    rows, below = counts.sum(axis=1), counts @ b
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where((below != 0) & (rows >= FEWEST), (counts @ a) / below, np.nan)
        share = counts / np.maximum(rows, 1e-9)[:, None]
        spread = np.sqrt((share * (a - ratio[:, None] * b) ** 2).sum(axis=1))
        scale = spread * rows / np.abs(below)
    error, far = _off(asked, rows)
    width = far * scale
    positive = len(a) > 0 and a.min() >= 0 and b.min() >= 0  # and then so is the ratio
    return Found(ratio, error * scale, np.minimum(width, ratio) if positive else width, width)


def quantiles(asked: Asked, counts: Floats, first: Floats, last: Floats, q: float) -> Found:
    """Where the share below may be q: the numbers at which it is, give or take its own interval."""
    order = np.argsort(first, kind="stable")
    counts, first, last = counts[:, order], first[order], last[order]
    rows = counts.sum(axis=1)
    below = np.cumsum(counts, axis=1) / np.maximum(rows, 1e-9)[:, None]
    error, far = _off(asked, rows)
    spread = np.sqrt(q * (1 - q))
    found = np.array(
        [_crossing(b, first, last, q) if r >= FEWEST else np.nan for b, r in zip(below, rows, strict=True)]
    )
    ends = []
    for reach in (error, far):
        low = [_crossing(b, first, last, max(q - r * spread, 0.0)) for b, r in zip(below, reach, strict=True)]
        high = [
            _crossing(b, first, last, min(q + r * spread, 1.0)) for b, r in zip(below, reach, strict=True)
        ]
        ends.append((found - np.array(low), np.array(high) - found))
    (less, more), (down, up) = ends
    return Found(found, (less + more) / 2, down, up)


def _crossing(below: Floats, first: Floats, last: Floats, share: float) -> float:
    """The number that so large a share is below; inside a bin, in proportion."""
    if not np.isfinite(share):
        return float("nan")
    place = min(int(np.searchsorted(below, share - 1e-12)), len(below) - 1)
    before = below[place - 1] if place else 0.0
    part = (share - before) / max(below[place] - before, 1e-12)
    return float(first[place] + (last[place] - first[place]) * min(max(part, 0.0), 1.0))

"""Estimates of any quantity: counts, shares, means, sums, quantiles and ratios, by group, each with an interval.

How far off a count is, calibrated error bars say by themselves. A mean within a group is off by a contrast over the
group's rows (`error_bars/contrasts.py`), whose errors were measured, too: in standard deviations of the group's values
they follow a curve over how many rows it has. A share is the mean of ones and zeros; a ratio of two sums is off as the
mean of a − R·b is; a quantile is where the share below it may be what was asked. Two groups that are compared are taken
to be off independently.

The promise is that of the bars: on average over groups of about this size, not for one that looks odd.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.error_bars.bars import ErrorBars
from openprior.errors import WorkloadError
from openprior.given import choice, finite_number, several
from openprior.models.base import Model
from openprior.questions.workload import Marginal
from openprior.releases.answers import NUMBERS, asked_columns, headings, number_columns
from openprior.releases.group_tables import (
    GroupTable,
    group_table,
    need_numbers,
    numbers_of_codes,
    spans_of_codes,
)
from openprior.schema.base import Schema
from openprior.tables.conditions import allowed_codes, known_name, marked_codes
from openprior.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPARISONS", "QUANTITIES", "Asked", "estimated"]

Floats = NDArray[np.float64]

QUANTITIES = ("count", "share", "mean", "sum", "quantile", "median", "ratio")
COMPARISONS = ("difference", "ratio")
_Z95 = 1.959963984540054
_FEWEST = 0.5
"""Rows of a group of which nothing can be told but how few there are."""
_CALIBRATED = 3
"""The basis, as in `answers.py`."""


@dataclass(frozen=True, eq=False)
class Asked:
    """What a release is asked through: its model, its schema, its bars, and its rows."""

    model: Model
    schema: Schema
    bars: ErrorBars | None
    rows_known: bool
    """Whether the number of rows is public."""
    codes: Callable[[], Table]
    """The released rows as codes."""
    values: Callable[[str], Floats]
    """The released values of a column, as numbers; nan where there is none."""
    cells: Callable[[Marginal], tuple[Floats, ...]]
    """Of a marginal's cells: estimate, standard error, low and high, as the answers have them."""


@dataclass(frozen=True, eq=False)
class _Found:
    """Of every group: the estimate, its standard error, and how far its interval goes down and up."""

    estimate: Floats
    error: Floats
    down: Floats
    up: Floats


def estimated(
    asked: Asked,
    what: str,
    of: str | Sequence[str] | None = None,
    *,
    by: Iterable[str] | str = (),
    where: Mapping[str, Any] | None = None,
    value: Any = None,
    q: float = 0.5,
    compare: str | None = None,
    against: Mapping[str, Any] | None = None,
) -> "pa.Table":
    """One row per group; see `Release.estimate`."""
    schema = asked.schema
    what = choice("what", what, *QUANTITIES)
    named = () if isinstance(by, str) and not by else asked_columns(by, schema)
    groups = tuple(known_name(a, schema) for a in named)
    allowed = {} if where is None else allowed_codes(where, schema)
    names = _columns_of(what, of, schema)
    if compare is not None:
        choice("compare", compare, *COMPARISONS)
        if not groups:
            raise WorkloadError("there are no groups to compare; name them with by")
    elif against is not None:
        raise WorkloadError('against says which group others are compared with; give compare = "difference"')
    table = group_table(asked.model, schema, groups, names, allowed)
    if what == "count" and groups and not allowed and not any(a in schema.levels for a in groups):
        found = _as_answered(asked, groups, table)
    else:
        found = _found(asked, what, table, names, value, q)
    labels = table.labels
    if what == "share" and value is None:
        labels = (*labels, schema[names[0]].labels)
        groups = (*groups, names[0])
    if compare is not None:
        found = _compared(found, _reference(against, groups, labels, schema), compare)
    return _as_table(found, groups, labels, calibrated=_is_calibrated(asked, table.marginal))


def _columns_of(what: str, of: str | Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The columns whose values are asked about."""
    needed = {"count": 0, "ratio": 2}.get(what, 1)
    given = () if of is None else (of,) if isinstance(of, str) else several("of", of, error=WorkloadError)
    names = tuple(known_name(a, schema) for a in given)
    if len(names) != needed:
        asked_for = ("rows, and takes no column", "one column; name it", "two columns; name both")[needed]
        raise WorkloadError(f"a {what} is of {asked_for}")
    for name in names:
        if name in schema.levels:
            raise WorkloadError(
                f"'{name}' is a level; a {what} is of a column, and levels may be in by and where"
            )
        if what not in ("share", "count"):
            need_numbers(name, schema)
    return names


def _found(asked: Asked, what: str, table: GroupTable, names: Sequence[str], value: Any, q: float) -> _Found:
    """What is asked for, of every group."""
    schema = asked.schema
    if what != "share" and value is not None:
        raise WorkloadError(f"value says which values a share is of; a {what} has none")
    if what == "count":
        return _counts(asked, table, table.counts.reshape(-1))
    if what == "share":
        return _shares(asked, table, names[0], value)
    numbers = [numbers_of_codes(a, schema, asked.codes, lambda a=a: asked.values(a)) for a in names]  # type: ignore[misc]
    if what == "ratio":
        return _ratios(asked, table, *numbers)
    inside = np.isfinite(numbers[0])
    counts, own = table.counts[:, inside], numbers[0][inside]
    if what in ("quantile", "median"):
        share = 0.5 if what == "median" else finite_number("q", q, error=WorkloadError)
        if not 0 < share < 1:
            raise WorkloadError(f"q ({share:g}) must be between 0 and 1")
        return _quantiles(asked, counts, *spans_of_codes(names[0], schema), share)
    means = _means(asked, counts, own)
    if what == "mean":
        return means
    rows = _counts(asked, table, counts.sum(axis=1))
    return _Found(
        rows.estimate * means.estimate,
        *(
            np.hypot(getattr(rows, part) * means.estimate, getattr(means, part) * rows.estimate)
            for part in ("error", "down", "up")
        ),
    )


def _as_answered(asked: Asked, groups: Sequence[str], table: GroupTable) -> _Found:
    """Counts of whole cells, which may have been measured: as the answers have them."""
    shape = [asked.schema.domain[a] for a in table.marginal]
    order = [table.marginal.index(a) for a in groups]
    numbers = [part.reshape(shape).transpose(order).reshape(-1) for part in asked.cells(table.marginal)]
    estimate, error, low, high = numbers
    return _Found(estimate, error, estimate - low, high - estimate)


def _counts(asked: Asked, table: GroupTable, rows: Floats) -> _Found:
    """How many rows every group has."""
    bars = asked.bars
    nothing = np.full(len(rows), np.nan)
    if not table.marginal:
        exact = np.zeros(len(rows)) if asked.rows_known else nothing
        return _Found(rows, exact, exact, exact)
    if bars is None:
        return _Found(rows, nothing, nothing, nothing)
    known = [c for c in bars.columns if c > 0]
    around = bars.around(rows, min(known, key=lambda c: abs(c - len(table.marginal))))
    return _Found(rows, around.standard_error, rows - around.low, around.high - rows)


def _means(asked: Asked, counts: Floats, numbers: Floats) -> _Found:
    """Of numbers [value], of rows [group, value]."""
    rows = counts.sum(axis=1)
    share = counts / np.maximum(rows, 1e-9)[:, None]
    mean = np.where(rows > 0, share @ numbers, np.nan)
    spread = np.sqrt((share * (numbers - mean[:, None]) ** 2).sum(axis=1))
    # Rows that are all alike are not for sure: one row more may lie at the other end.
    some = np.maximum(rows, 1.0)
    spread = np.maximum(spread, np.ptp(numbers) * np.sqrt(1 / some * (1 - 1 / (some + 1))))
    error, far = _off(asked, rows)
    return _Found(mean, error * spread, far * spread, far * spread)


def _off(asked: Asked, rows: Floats) -> tuple[Floats, Floats]:
    """How far a mean over so many rows is off, and its interval goes, in standard deviations of what is averaged; nan
    where there is hardly half a row."""
    nothing = np.full(len(rows), np.nan)
    if asked.bars is None or not asked.bars.has_contrasts:
        return nothing, nothing
    error, far = asked.bars.contrast(rows)
    some = np.where(rows >= _FEWEST, rows, np.nan)
    return error / some, far / some


def _shares(asked: Asked, table: GroupTable, name: str, value: Any) -> _Found:
    """Of some values together, or of each value of the column by itself."""
    counts, schema = table.counts, asked.schema
    if value is None:
        parts = np.eye(counts.shape[1])
    else:
        column, marked = marked_codes(name, value, schema)
        assert column == name
        parts = marked.astype(np.float64)[:, None]
    rows = counts.sum(axis=1)
    share = (counts @ parts) / np.maximum(rows, 1e-9)[:, None]
    share[rows <= 0] = np.nan
    error, far = _off(asked, rows)
    # A share of nearly nothing, or of nearly all, is not as sure as √(p(1 − p)) says: one row more or less is possible.
    least = np.minimum(1.0 / np.maximum(rows, 1.0), 0.5)[:, None]
    kept = np.clip(share, least, 1 - least)
    spread = np.sqrt(kept * (1 - kept))
    width = far[:, None] * spread
    down, up = np.minimum(width, share), np.minimum(width, 1 - share)
    flat = [a.reshape(-1) for a in (share, error[:, None] * spread, down, up)]
    return _Found(*flat)


def _ratios(asked: Asked, table: GroupTable, first: Floats, second: Floats) -> _Found:
    """Σa/Σb over the rows that have both."""
    has = np.isfinite(first)[:, None] & np.isfinite(second)[None, :]
    a, b = np.broadcast_arrays(first[:, None], second[None, :])
    counts = table.counts.reshape(len(table.counts), -1)[:, has.reshape(-1)]
    a, b = a.reshape(-1)[has.reshape(-1)], b.reshape(-1)[has.reshape(-1)]
    rows, below = counts.sum(axis=1), counts @ b
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(below != 0, (counts @ a) / below, np.nan)
        share = counts / np.maximum(rows, 1e-9)[:, None]
        spread = np.sqrt((share * (a - ratio[:, None] * b) ** 2).sum(axis=1))
        scale = spread * rows / np.abs(below)
    error, far = _off(asked, rows)
    return _Found(ratio, error * scale, far * scale, far * scale)


def _quantiles(asked: Asked, counts: Floats, first: Floats, last: Floats, q: float) -> _Found:
    """Where the share below may be q: the numbers at which it is, give or take its own interval."""
    order = np.argsort(first, kind="stable")
    counts, first, last = counts[:, order], first[order], last[order]
    rows = counts.sum(axis=1)
    below = np.cumsum(counts, axis=1) / np.maximum(rows, 1e-9)[:, None]
    error, far = _off(asked, rows)
    spread = np.sqrt(q * (1 - q))
    found = np.array(
        [_crossing(b, first, last, q) if r > 0 else np.nan for b, r in zip(below, rows, strict=True)]
    )
    ends = []
    for reach in (error, far):
        low = [_crossing(b, first, last, max(q - r * spread, 0.0)) for b, r in zip(below, reach, strict=True)]
        high = [
            _crossing(b, first, last, min(q + r * spread, 1.0)) for b, r in zip(below, reach, strict=True)
        ]
        ends.append((found - np.array(low), np.array(high) - found))
    (less, more), (down, up) = ends
    return _Found(found, (less + more) / 2, down, up)


def _crossing(below: Floats, first: Floats, last: Floats, share: float) -> float:
    """The number that so large a share is below; inside a bin, in proportion."""
    if not np.isfinite(share):
        return float("nan")
    place = min(int(np.searchsorted(below, share - 1e-12)), len(below) - 1)
    before = below[place - 1] if place else 0.0
    part = (share - before) / max(below[place] - before, 1e-12)
    return float(first[place] + (last[place] - first[place]) * min(max(part, 0.0), 1.0))


# Comparing groups.


def _reference(
    against: Mapping[str, Any] | None, groups: Sequence[str], labels: Sequence[Sequence[str]], schema: Schema
) -> int:
    """Which group the others are compared with: the first, or the one that is named."""
    if against is None:
        return 0
    if not isinstance(against, Mapping) or set(against) != set(groups):
        raise WorkloadError(f"against names one group by its labels: one for each of {', '.join(groups)}")
    place = 0
    for name, own in zip(groups, labels, strict=True):
        label = str(against[name]) if not isinstance(against[name], bool) else str(against[name]).lower()
        if label not in own:
            column, marked = marked_codes(name, against[name], schema)
            if column != name or marked.sum() != 1:
                raise WorkloadError(f"against names no single group of '{name}'")
            label = own[int(np.flatnonzero(marked)[0])]
        place = place * len(own) + list(own).index(label)
    return place


def _compared(found: _Found, place: int, how: str) -> _Found:
    """Every group less the one in that place, or as a multiple of it; both are taken to be off independently."""
    own, other = found, _Found(*(getattr(found, name)[place] for name in ("estimate", "error", "down", "up")))
    if how == "difference":
        made = _Found(
            own.estimate - other.estimate,
            np.hypot(own.error, other.error),
            np.hypot(own.down, other.up),
            np.hypot(own.up, other.down),
        )
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = own.estimate / other.estimate
            parts = [
                np.abs(ratio) * np.hypot(a / own.estimate, b / other.estimate)
                for a, b in ((own.error, other.error), (own.down, other.up), (own.up, other.down))
            ]
        made = _Found(ratio, *parts)
    for name in ("error", "down", "up"):
        getattr(made, name)[place] = 0.0  # a group is just itself
    return made


def _is_calibrated(asked: Asked, marginal: Marginal) -> bool:
    """Whether the bars are for this marginal, too."""
    return asked.bars is not None and (not marginal or asked.bars.tells(marginal))


def _as_table(
    found: _Found, groups: Sequence[str], labels: Sequence[Sequence[str]], *, calibrated: bool
) -> "pa.Table":
    import pyarrow as pa

    codes = np.unravel_index(np.arange(len(found.estimate)), [len(some) for some in labels]) if labels else ()
    names = headings(groups, (*NUMBERS, "basis"))
    table: dict[str, Any] = {
        names[a]: pa.array([some[i] for i in own], pa.string())
        for a, own, some in zip(groups, codes, labels, strict=True)
    }
    nothing = np.full(len(found.estimate), np.nan)
    error, low, high = nothing, nothing, nothing
    if calibrated:
        error, low, high = found.error, found.estimate - found.down, found.estimate + found.up
    basis = np.where(np.isfinite(error) & np.isfinite(found.estimate), _CALIBRATED, 0).astype(np.int8)
    return pa.table({**table, **number_columns(found.estimate, error, low, high, basis)})

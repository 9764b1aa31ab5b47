"""Estimates of any quantity, by group, each with an interval: what is asked, put into tables of counts, and compared.

How far a count, a mean, a share, a ratio or a quantile may be off is in `quantities.py`. Two groups that are compared
are taken to be off independently. The promise is that of the bars: on average over groups of about this size, not for
one that looks odd. Where there is no interval, the table's metadata say why.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import WorkloadError
from openprior.given import choice, finite_number, several
from openprior.models.base import Flags
from openprior.releases.answers import NUMBERS, asked_columns, headings, number_columns
from openprior.releases.group_tables import (
    GroupTable,
    group_table,
    need_numbers,
    numbers_of_codes,
    spans_of_codes,
)
from openprior.releases.quantities import (
    FEWEST,
    Asked,
    Found,
    as_answered,
    counts_of,
    means,
    quantiles,
    ratios,
    shares,
    shares_of_all,
)
from openprior.schema.base import Schema
from openprior.tables.conditions import allowed_codes, known_name, marked_codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPARISONS", "QUANTITIES", "estimated", "why_none"]

Floats = NDArray[np.float64]

QUANTITIES = ("count", "share", "mean", "sum", "quantile", "median", "ratio")
COMPARISONS = ("difference", "ratio")
_NONE, _CALIBRATED = np.int8(0), np.int8(3)
"""The bases, as in `answers.py`."""
_KEY = b"openprior"


def estimated(
    asked: Asked,
    what: str,
    of: str | Sequence[str] | None = None,
    *,
    by: Iterable[str] | str = (),
    where: Mapping[str, Any] | None = None,
    value: Any = None,
    q: float | None = None,
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
    if (what == "quantile") != (q is not None):
        raise WorkloadError("q says which quantile, such as 0.9; give it with a quantile, and only there")
    if what != "share" and value is not None:
        raise WorkloadError(f"value says which values a share is of; a {what} has none")
    if compare is not None:
        choice("compare", compare, *COMPARISONS)
        if not groups:
            raise WorkloadError("there are no groups to compare; name them with by")
    elif against is not None:
        raise WorkloadError('against says which group others are compared with; give compare = "difference"')
    table = group_table(asked.model, schema, groups, names, allowed)
    whole = not allowed and not any(a in schema.levels for a in groups)
    if what == "count" and groups and whole:
        found = as_answered(asked, groups, table)
    elif what == "share" and value is None and not groups and not allowed and asked.rows_known:
        found = shares_of_all(asked, names[0])
    else:
        found = _found(asked, what, table, names, allowed, value, q)
    labels, each = table.labels, 1
    place = None if compare is None else _reference(against, groups, labels, schema)
    if what == "share" and value is None:
        labels, each = (*labels, schema[names[0]].labels), schema[names[0]].size
        groups = (*groups, names[0])
    found = _with_basis(asked, table.marginal, found)
    if place is not None and compare is not None:
        found = _compared(found, place, each, compare)
    return _as_table(asked, found, groups, labels, table.marginal)


def _columns_of(what: str, of: str | Sequence[str] | None, schema: Schema) -> tuple[str, ...]:
    """The columns whose values are asked about."""
    needed = {"count": 0, "ratio": 2}.get(what, 1)
    if isinstance(of, str):
        given = asked_columns(of, schema)
    else:
        given = () if of is None else several("of", of, error=WorkloadError)
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


def _found(
    asked: Asked,
    what: str,
    table: GroupTable,
    names: Sequence[str],
    allowed: Mapping[str, Flags],
    value: Any,
    q: float | None,
) -> Found:
    """What is asked for, of every group."""
    schema = asked.schema
    if what == "count":
        return counts_of(asked, table, table.counts.reshape(-1))
    if what == "share":
        return shares(asked, table, names[0], value)
    numbers = [numbers_of_codes(a, schema, asked.codes, lambda a=a: asked.values(a)) for a in names]  # type: ignore[misc]
    if what == "ratio":
        return ratios(asked, table, *numbers)
    inside = np.isfinite(numbers[0])
    counts, own = table.counts[:, inside], numbers[0][inside]
    if what in ("quantile", "median"):
        share = 0.5 if q is None else finite_number("q", q, error=WorkloadError)
        if not 0 < share < 1:
            raise WorkloadError(f"q ({share:g}) must be above 0 and below 1")
        return quantiles(asked, counts, *spans_of_codes(names[0], schema), share)
    found = means(asked, counts, own, _ends(names[0], schema, allowed))
    if what == "mean":
        return found
    rows = counts_of(asked, table, counts.sum(axis=1))
    return Found(
        rows.estimate * found.estimate,
        *(
            np.hypot(getattr(rows, part) * found.estimate, getattr(found, part) * rows.estimate)
            for part in ("error", "down", "up")
        ),
    )


def _ends(name: str, schema: Schema, allowed: Mapping[str, Flags]) -> tuple[float, float]:
    """The least and the greatest number that a column may have, under the conditions."""
    first, last = spans_of_codes(name, schema)
    inside = allowed[name][: len(first)] if name in allowed else np.ones(len(first), np.bool_)
    if not inside.any():
        return -np.inf, np.inf
    return float(first[inside].min()), float(last[inside].max())


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


def _compared(found: Found, place: int, each: int, how: str) -> Found:
    """Every group less the one in that place, or as a multiple of it, value by value where there are several to `each`;
    both are taken to be off independently."""
    parts = ("estimate", "error", "down", "up", "basis")
    own = {name: getattr(found, name).reshape(-1, each) for name in parts}
    other = {name: numbers[place] for name, numbers in own.items()}
    if how == "difference":
        estimate = own["estimate"] - other["estimate"]
        error, down, up = (
            np.hypot(own[a], other[b]) for a, b in (("error", "error"), ("down", "up"), ("up", "down"))
        )
    else:
        with np.errstate(divide="ignore", invalid="ignore"):
            estimate = own["estimate"] / other["estimate"]
            error, down, up = (
                np.abs(estimate) * np.hypot(own[a] / own["estimate"], other[b] / other["estimate"])
                for a, b in (("error", "error"), ("down", "up"), ("up", "down"))
            )
    none = (own["basis"] == _NONE) | (other["basis"] == _NONE)
    basis = np.where(none, _NONE, np.where(own["basis"] == other["basis"], own["basis"], _CALIBRATED))
    for numbers in (error, down, up):
        numbers[place] = 0.0  # a group is just itself
    estimate, error, down, up = (numbers.reshape(-1) for numbers in (estimate, error, down, up))
    return Found(estimate, error, down, up, basis.reshape(-1).astype(np.int8))


def _with_basis(asked: Asked, marginal: tuple[str, ...], found: Found) -> Found:
    """With what its intervals rest on; there is none unless the workload has these columns together."""
    if found.basis is not None:
        return found
    told = asked.bars is not None and (not marginal or asked.bars.tells(marginal))
    good = np.isfinite(found.error) & np.isfinite(found.estimate) & told
    return Found(found.estimate, found.error, found.down, found.up, np.where(good, _CALIBRATED, _NONE))


def _as_table(
    asked: Asked,
    found: Found,
    groups: Sequence[str],
    labels: Sequence[Sequence[str]],
    marginal: tuple[str, ...],
) -> "pa.Table":
    import pyarrow as pa

    codes = np.unravel_index(np.arange(len(found.estimate)), [len(some) for some in labels]) if labels else ()
    names = headings(groups, (*NUMBERS, "basis"))
    table: dict[str, Any] = {
        names[a]: pa.array([some[i] for i in own], pa.string())
        for a, own, some in zip(groups, codes, labels, strict=True)
    }
    assert found.basis is not None
    has = (found.basis != _NONE) & np.isfinite(found.estimate)
    error, low, high = (
        np.where(has, numbers, np.nan)
        for numbers in (found.error, found.estimate - found.down, found.estimate + found.up)
    )
    made = pa.table(
        {**table, **number_columns(found.estimate, error, low, high, np.where(has, found.basis, _NONE))}
    )
    reasons = _reasons(asked, marginal, found.estimate, has)
    return made.replace_schema_metadata({_KEY: json.dumps({"no_interval": reasons})}) if reasons else made


def _reasons(asked: Asked, marginal: tuple[str, ...], estimate: Floats, has: Flags) -> list[str]:
    """Why some figures have no interval."""
    if has.all():
        return []
    reasons = []
    if not np.isfinite(estimate).all():
        reasons.append(f"groups in which fewer than {FEWEST:g} row is expected have no figure")
    if (np.isfinite(estimate) & ~has).any():
        if asked.bars is None:
            reasons.append(
                "this release has no error bars, and nothing that was measured tells these figures"
            )
        elif asked.bars.says_nothing:
            reasons.append("the budget was too small to tell errors from noise")
        elif marginal and not asked.bars.tells(marginal):
            columns = ", ".join(marginal)
            reasons.append(
                f"{columns} are together in no marginal of the workload; release with one that has them"
            )
        else:
            reasons.append("nothing was measured that tells how far these figures are off")
    return reasons


def why_none(table: "pa.Table") -> list[str]:
    """Why some figures of such a table have no interval; nothing if all have."""
    told = (table.schema.metadata or {}).get(_KEY)
    return [] if told is None else list(json.loads(told)["no_interval"])

"""Estimates of any quantity, by group, each with an interval: what is asked, put into tables of counts, and compared.

How far a count, a mean, a share, a ratio or a quantile may be off is in `quantities.py`, and two groups are compared in
`compared.py`. The promise is that of the bars: on average over groups of about this size, not for
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
from openprior.releases.compared import COMPARISONS, compared, possible, reference
from openprior.releases.group_tables import (
    GroupTable,
    group_table,
    need_numbers,
    numbers_of_codes,
    spans_of_codes,
)
from openprior.releases.quantities import (
    CALIBRATED,
    FEWEST,
    NONE,
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
from openprior.schema.columns import Categorical
from openprior.tables.conditions import allowed_codes, known_name, marked_codes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["QUANTITIES", "estimated", "remarks_on", "why_none"]

Floats = NDArray[np.float64]

QUANTITIES = ("count", "share", "mean", "sum", "quantile", "median", "ratio")
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
    values = None if value is None else marked_codes(names[0], value, schema)[1]
    fixed = {a: int(np.argmax(marked)) for a, marked in allowed.items() if marked.sum() == 1}
    of_all = what == "share" and table.marginal == names and not allowed and asked.rows == asked.model.total
    if what == "count" and table.marginal and _are_cells(groups, allowed, fixed, schema):
        found = as_answered(asked, groups, table.marginal, fixed)
    elif of_all and (values is None or values.sum() == 1):
        found = shares_of_all(asked, names[0], None if values is None else int(np.argmax(values)))
    else:
        found = _found(asked, what, table, names, allowed, values, q)
    found = _with_basis(asked, table.marginal, found)
    labels, left = table.labels, possible(groups, table.labels, allowed, schema)
    every = what == "share" and values is None
    if compare is not None:
        rows = table.counts.reshape(len(left), -1).sum(axis=1)
        place = reference(against, groups, labels, left, schema)
        found = compared(found, rows, place, schema[names[0]].size if every else 1, compare)
    if every:
        groups, labels = (*groups, names[0]), (*labels, schema[names[0]].labels)
        left = possible(groups, labels, allowed, schema)
    said = (
        []
        if what == "share"
        else [_labels_as_numbers(a) for a in names if isinstance(schema[a], Categorical)]
    )
    return _as_table(asked, found, groups, labels, table.marginal, left, said)


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
    values: Flags | None,
    q: float | None,
) -> Found:
    """What is asked for, of every group."""
    schema = asked.schema
    if what == "count":
        return counts_of(asked, table, table.counts.reshape(-1))
    if what == "share":
        return shares(asked, table, values)
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
    estimate = rows.estimate * found.estimate
    error, down, up = (
        np.hypot(getattr(rows, part) * found.estimate, getattr(found, part) * rows.estimate)
        for part in ("error", "down", "up")
    )
    least, most = _ends(names[0], schema, allowed)  # a sum of numbers that are all of one sign has that, too
    return Found(
        estimate,
        error,
        np.minimum(down, estimate) if least >= 0 else down,
        np.minimum(up, -estimate) if most <= 0 else up,
    )


def _are_cells(
    groups: Sequence[str], allowed: Mapping[str, Flags], fixed: Mapping[str, int], schema: Schema
) -> bool:
    """Whether what is counted are cells of a marginal: no sums of several."""
    whole = not any(a in schema.levels or a in allowed for a in groups)
    return whole and allowed.keys() == fixed.keys()


def _ends(name: str, schema: Schema, allowed: Mapping[str, Flags]) -> tuple[float, float]:
    """The least and the greatest number that a column may have, under the conditions."""
    first, last = spans_of_codes(name, schema)
    inside = allowed[name][: len(first)] if name in allowed else np.ones(len(first), np.bool_)
    if not inside.any():
        return -np.inf, np.inf
    return float(first[inside].min()), float(last[inside].max())


def _with_basis(asked: Asked, marginal: tuple[str, ...], found: Found) -> Found:
    """With what its intervals rest on; there is none unless the workload has these columns together."""
    if found.basis is not None:
        return found
    told = asked.bars is not None and (not marginal or asked.bars.tells(marginal))
    good = np.isfinite(found.error) & np.isfinite(found.estimate) & told
    return Found(found.estimate, found.error, found.down, found.up, np.where(good, CALIBRATED, NONE))


def _as_table(
    asked: Asked,
    found: Found,
    groups: Sequence[str],
    labels: Sequence[Sequence[str]],
    marginal: tuple[str, ...],
    left: Flags,
    said: list[str],
) -> "pa.Table":
    """The groups that the conditions leave."""
    import pyarrow as pa

    codes = np.unravel_index(np.flatnonzero(left), [len(some) for some in labels]) if labels else ()
    estimate, error, down, up = (p[left] for p in (found.estimate, found.error, found.down, found.up))
    names = headings(groups, (*NUMBERS, "basis"))
    table: dict[str, Any] = {
        names[a]: pa.array([some[i] for i in own], pa.string())
        for a, own, some in zip(groups, codes, labels, strict=True)
    }
    assert found.basis is not None
    basis = found.basis[left]
    has = (basis != NONE) & np.isfinite(estimate)
    error, low, high = (np.where(has, p, np.nan) for p in (error, estimate - down, estimate + up))
    made = pa.table({**table, **number_columns(estimate, error, low, high, np.where(has, basis, NONE))})
    told = {"no_interval": _reasons(asked, marginal, estimate, has), "remarks": said}
    return made.replace_schema_metadata({_KEY: json.dumps(told)}) if any(told.values()) else made


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
                "the intervals of this method are for its answers one by one; figures that are put together from "
                "several have none"
                if asked.is_exact
                else "this release has no error bars, which tell how far figures that were not measured by themselves "
                "may be off; release with error_bars"
            )
        elif asked.bars.says_nothing:
            reasons.append("the budget was too small to tell errors from noise")
        elif marginal and not asked.bars.tells(marginal):
            reasons.append(
                f"the workload has no marginal with {' and '.join(marginal)}; release with one that has"
            )
        else:
            reasons.append("nothing was measured that tells how far these figures are off")
    return reasons


def _labels_as_numbers(name: str) -> str:
    return f"'{name}' is categorical in the schema: its labels are taken as numbers, which may mean nothing"


def why_none(table: "pa.Table") -> list[str]:
    """Why some figures of such a table have no interval; nothing if all have."""
    return _told(table, "no_interval")


def remarks_on(table: "pa.Table") -> list[str]:
    """What else there is to know about such a table."""
    return _told(table, "remarks")


def _told(table: "pa.Table", what: str) -> list[str]:
    told = (table.schema.metadata or {}).get(_KEY)
    return [] if told is None else list(json.loads(told)[what])

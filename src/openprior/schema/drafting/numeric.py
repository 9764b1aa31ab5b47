"""Numbers: a list of codes where they are few, a code for each in a short range, else bins of about equally many rows.

A number outside a list of codes is no neighbour of any: 3 is not nearly 2 if they are regions. So lists have `other`.
Ranges and bins are of quantities, and their ends are open. A value that many rows have (zero incomes) gets a bin one
step wide, and so does one that stands for missing (999), so that neither is spread over its neighbours.

An infinite number is at an open end. A list has none and cannot hold it, so there it is missing: as `other` it would be
a null in the synthetic rows, which are read as missing.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from openprior.schema.bins import Binned, Integer, Real
from openprior.schema.columns import INFINITE_TOKENS, Column, Ordered
from openprior.schema.drafting.categories import Drafted, nothing, prevalence
from openprior.schema.drafting.distinct import Counts, Options
from openprior.schema.drafting.remarks import Notes
from openprior.schema.drafting.resolution import common_step, fine_step
from openprior.schema.drafting.sentinels import sentinels
from openprior.schema.edges import few, heavy, quantile_edges, tallied
from openprior.schema.identifiers import Remark
from openprior.schema.precision import Precision

__all__ = ["number"]

_OWN_CODES = 64  # integers in a range this short keep a code each
_CODES = 20  # so few numbers are taken as codes
_EXACT = 2**53
_DATE_LIKE = (19000101, 21001231)

Numbers = npt.NDArray[Any]


def number(
    found: Counts, values: Numbers, dtype: str, options: Options, *, whole: bool | None = None
) -> Drafted:
    """A column of numbers; `values` are those of `found` in the same order."""
    finite = np.isfinite(values)
    if finite.all():
        return _finite(found, values, dtype, options, whole=whole)
    rows = int(found.counts[~finite].sum())
    found = replace(
        found, values=found.values.filter(pa.array(finite)), counts=found.counts[finite], missing=True
    )
    drafted = (
        _finite(found, values[finite], dtype, options, whole=whole)
        if finite.any()
        else nothing(found, options)
    )
    column = drafted.column
    if isinstance(column, Binned):
        said = Notes(found.name).infinite_ends((*column.missing_values, *INFINITE_TOKENS), rows)
        return replace(drafted, remarks=(*drafted.remarks, said))
    column = replace(column, missing_values=(*column.missing_values, *INFINITE_TOKENS))
    said = Notes(found.name).infinite_codes(rows)
    return replace(drafted, column=column, remarks=(said, *drafted.remarks))


def _finite(found: Counts, values: Numbers, dtype: str, options: Options, *, whole: bool | None) -> Drafted:
    """A column of numbers none of which is infinite."""
    counts = found.counts
    if whole is None:
        whole = values.dtype.kind in "iu" or bool(
            (values == np.floor(values)).all() and abs(values).max() < _EXACT
        )
    values = values.astype(np.int64) if whole else values.astype(np.float64) + 0.0
    own_values, where = np.unique(values, return_inverse=True)
    if len(own_values) < len(values):  # 1 and 1.0, 0 and −0.0 are one number
        values, counts = own_values, np.bincount(where, counts).astype(np.int64)
        found = replace(found, values=pa.array(values), counts=counts)
    is_short = whole and int(values.max()) - int(values.min()) < _OWN_CODES
    codes = sentinels(values)
    if few(values, counts, _CODES if is_short else min(_CODES, options.bins)):
        column: Column = Ordered(
            name=found.name,
            values=tuple(np.sort(values).tolist()),
            dtype=dtype,
            missing=found.missing or not options.other,
            **options.outside,
        )
        # A list of one value is a constant, which says more.
        listed = () if len(values) == 1 else (Notes(found.name).codes(whole=whole, other=options.other),)
        own = ", with a code of its own"
        remarks = (*listed, *_on_sentinels(found.name, values, counts, codes, own))
        return Drafted(column, (*remarks, *prevalence(found, options, is_word=False)))
    # The private table may lack values that the public one has: a draft must not refuse it.
    common: dict[str, Any] = {"name": found.name, "missing": True, "out_of_domain": "open", "dtype": dtype}
    if is_short:
        column = Integer(low=int(values.min()), high=int(values.max()), **common)
        remarks = _on_sentinels(found.name, values, counts, codes, ", with a code of its own")
        return Drafted(column, (*remarks, *prevalence(found, options, is_word=False)))
    apart = codes if options.bins > 2 * len(codes) else codes[:0]
    column = _in_bins(values, counts, apart, options.bins, whole=whole, common=common)
    own = ", in a bin of its own" if len(apart) else " among the others"
    remarks = _on_sentinels(found.name, values, counts, codes, own)
    if whole and _are_dates(values):
        remarks += (Notes(found.name).dates_as_numbers(values[0]),)
    return Drafted(column, (*remarks, *prevalence(found, options, is_word=False)))


def _on_sentinels(
    name: str, values: Numbers, counts: npt.NDArray[np.int64], codes: Numbers, own: str
) -> tuple[Remark, ...]:
    if not len(codes):
        return ()
    held = np.isin(values, codes)
    rest = values[~held]
    ends = (rest.min().item(), rest.max().item())
    return (Notes(name).sentinels(codes.tolist(), int(counts[held].sum()), ends, own=own),)


def _in_bins(
    values: Numbers,
    counts: npt.NDArray[np.int64],
    apart: Numbers,
    bins: int,
    *,
    whole: bool,
    common: dict[str, Any],
) -> Column:
    """Bins of about equally many rows, cut at multiples of the step that the values have."""
    body = ~np.isin(values, apart)
    most = max(bins - 2 * len(apart), 1)
    if whole:
        step = int(common_step(values) or 1)
        edges = _on_grid(values[body] // step, counts[body], apart // step, most)
        return Integer(
            high=int(values.max()),
            bins=tuple(edge * step for edge in edges),
            step=step if step > 1 else None,
            **common,
        )
    # Single precision has fewer digits to be multiples in.
    relative = 1e-15 if common["dtype"] in ("double", "string", "large_string") else 1e-6
    exact = common_step(values, relative=relative)
    own = np.append(values[body][heavy(counts[body], most)], apart)
    step_or_none = fine_step(values, own) if exact is None and len(own) else exact
    if step_or_none is None:
        return Real(bins=tuple(quantile_edges(values, counts, bins, whole=False)), **common)
    precision = Precision.of(step_or_none)
    # Values that are no multiples lie between two: the grid goes on to the one after the last.
    places = precision.nearest(values[body]) if exact else precision.last_to(values[body])
    last = precision.first_from(np.array([values[body].max()]))
    tallies = np.append(counts[body], 0)
    edges = _on_grid(np.append(places, last), tallies, precision.nearest(apart), most, outward=True)
    return Real(bins=tuple(precision.values(np.array(edges)).tolist()), step=step_or_none, **common)


def _on_grid(
    places: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    apart: npt.NDArray[np.int64],
    bins: int,
    *,
    outward: bool = False,
) -> list[int]:
    """Edges on a grid of whole numbers, and beyond them a bin of one for each place that stands apart."""
    own, tallies = tallied(places, counts)
    if len(own) == 1:
        own, tallies = np.append(own, own[0] + 1), np.append(tallies, 0)
    edges = [int(edge) for edge in quantile_edges(own, tallies, bins, whole=True, outward=outward)]
    above, below = ([int(p) for p in apart[side]] for side in (apart > own[-1], apart < own[0]))
    first, last = edges[0], edges[-1]
    if above:  # the last bin of the body no longer is closed, so it ends after its last value
        last = min(max(last, int(own[-1]) + 1), above[0])
    if below:
        first = max(first, below[-1] + 1)
    inner = {edge for edge in edges if first < edge < last}
    singles = {edge for place in (*below, *above) for edge in (place, place + 1)}
    return sorted({first, last, *inner, *singles})


def _are_dates(values: Numbers) -> bool:
    """Whether whole numbers all are dates without separators: 20211231."""
    if values.min() < _DATE_LIKE[0] or values.max() > _DATE_LIKE[1]:
        return False
    month, day = values // 100 % 100, values % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())

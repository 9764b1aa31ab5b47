"""What a release shows of its own losses: columns that nothing was measured of, and values that the schema cannot hold.

All of it is post-processing: it compares released rows with the public table and looks at which columns were counted.
So it costs nothing, may be published, and is said wherever the release is: no column should be wrong in silence. What
noise alone could do is not told.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from openprior.display import listed
from openprior.methods.base import NOT_MEASURED
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import Counts
from openprior.questions.workload import Marginal
from openprior.releases.view import RowCounts, View
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.columns import Column

__all__ = ["noticed"]

_LARGE = 0.05
"""The share of rows from which values that are not listed are told."""
_MORE = 0.1
"""How much larger than in the public table an end bin's share must be to be told."""
_SURE = 3.0
"""Standard deviations of the noise by which a share must be beyond that."""
_UNSURE = 0.2
"""By how much where nothing says how noisy it is: single cells and queries were measured."""
_NAMED = 8


def noticed(
    schema: Schema,
    released: RowCounts,
    public: View | None,
    asked: Iterable[Marginal],
    measurements: Sequence[Measurement],
    remarks: Iterable[str],
) -> list[str]:
    """In words, without a full stop; empty if there is nothing to say.

    released  the counts of every column
    asked     the marginals of the workload: a method may find that one of them needs no measuring
    remarks   what the method has said itself
    """
    measurements = [piece for m in measurements for piece in m.pieces(schema.full_domain)]
    counted = {name for m in measurements for name in (*m.marginal, *m.part)}
    counted |= {schema.levels[name].column for name in counted if name in schema.levels}
    known = [column for column in schema.columns if column.name in counted]
    noise = _noise(measurements, schema, released.rows)
    reached = counted.union(*asked)
    rest = [column.name for column in schema.columns if column.name not in reached]
    said = []
    if rest and not any(remark.startswith(NOT_MEASURED) for remark in remarks):
        said.append(
            f"nothing was measured of {listed(rest, _NAMED)}: what is released there does not come from the private "
            "table; name such columns in the workload, or leave them out of the schema"
        )
    others = {c.name: _share(released, c, c.other_code) for c in known if c.other_code is not None}
    large = {name: share for name, share in others.items() if share >= _LARGE + noise.get(name, _UNSURE)}
    if large:
        each = [f"{large[name]:.0%} of {name}" for name in sorted(large, key=lambda name: -large[name])]
        sure = all(_told_others(measurements, schema, name) >= _LARGE * released.rows for name in large)
        why = "because" if sure else "perhaps because"  # a method that is far off puts much there by itself
        said.append(
            f"told as 'other' in the released rows, {why} the schema does not list it: {listed(each, _NAMED)}; list "
            "what may occur, from what is public"
        )
    ends = [] if public is None else _ends(known, released, public, noise)
    if ends:
        said.append(
            f"far fuller than in the public table: {listed(ends, _NAMED)}; such a bin also holds what lies beyond the "
            "bounds, told as if it were inside, so widen them if there may be any"
        )
    return said


def _noise(measurements: Iterable[Measurement], schema: Schema, rows: int) -> dict[str, float]:
    """How far noise may move the share of one value of a column, by the marginal that tells it best.

    A value's count is a sum of cells, and a sum over the parts where a marginal was measured in parts.
    """
    sizes = schema.full_domain
    variance: dict[tuple[str, Marginal], float] = {}
    for m in measurements:
        if isinstance(m.statistic, Counts):
            cells = math.prod(sizes[name] for name in m.marginal)
            for name in m.marginal:
                key = (name, m.marginal)
                variance[key] = variance.get(key, 0.0) + cells / sizes[name] * m.sigma**2
    least: dict[str, float] = {}
    for (name, _), each in variance.items():
        reach = _SURE * math.sqrt(each) / rows
        least[name] = min(reach, least.get(name, reach))
    return least


def _told_others(measurements: Iterable[Measurement], schema: Schema, name: str) -> float:
    """The most rows at `other` that a marginal tells, with its noise; in all parts together if it was in parts."""
    code = schema[name].other_code
    counts: dict[Marginal, dict[tuple[tuple[str, int], ...], float]] = {}
    for m in measurements:
        if code is not None and isinstance(m.statistic, Counts) and name in m.marginal:
            table = m.values.reshape([schema.full_domain[a] for a in m.marginal])
            others = table.take(code, axis=m.marginal.index(name))
            counts.setdefault(m.marginal, {})[tuple(m.part.items())] = float(others.sum())
    return max((sum(parts.values()) for parts in counts.values()), default=0.0)


def _ends(columns: list[Column], released: RowCounts, public: View, noise: Mapping[str, float]) -> list[str]:
    """The outer bins that also hold what lies beyond, where they are much fuller than in the public table."""
    said = []
    for column in columns:
        if isinstance(column, Binned) and column.out_of_domain in ("open", "clip"):
            for code in sorted({0, column.count - 1}):
                share, before = _share(released, column, code), float(public.shares[column.name][code])
                if share - before >= _MORE + noise.get(column.name, _UNSURE):
                    said.append(f"'{column.labels[code]}' of {column.name} ({share:.0%}, there {before:.0%})")
    return said


def _share(counted: RowCounts, column: Column, code: int) -> float:
    return float(counted.counts[column.name,][code] / counted.rows)

"""What a release shows of its own losses: columns that nothing was measured of, and values that the schema cannot hold.

All of it is post-processing: it compares released rows with the public table and looks at which columns were counted.
So it costs nothing, may be published, and is said wherever the release is: no column should be wrong in silence.
"""

from collections.abc import Iterable

import numpy as np

from openprior.display import listed
from openprior.methods.base import NOT_MEASURED
from openprior.privacy.measurement import Measurement
from openprior.schema.base import Schema
from openprior.schema.bins import Binned
from openprior.schema.columns import Column
from openprior.tables.table import Table

__all__ = ["noticed"]

_LARGE = 0.05
"""The share of rows from which values that are not listed are told."""
_MORE = 0.1
"""How much larger than in the public table an end bin's share must be to be told."""
_NAMED = 8


def noticed(
    schema: Schema,
    codes: Table,
    public: Table | None,
    measurements: Iterable[Measurement],
    remarks: Iterable[str] = (),
) -> list[str]:
    """In words, without a full stop; empty if there is nothing to say.

    remarks   what the method has said itself
    """
    counted = {name for m in measurements for name in (*m.marginal, *m.part)}
    known = [column for column in schema.columns if column.name in counted]
    rest = [column.name for column in schema.columns if column.name not in counted]
    said = []
    if public is not None and known and rest and not any(r.startswith(NOT_MEASURED) for r in remarks):
        said.append(
            f"nothing was measured of {listed(rest, _NAMED)}: what is released there does not come from the private "
            "table; name such columns in the workload, or leave them out of the schema"
        )
    others = {c.name: _share(codes, c, c.other_code) for c in known if c.other_code is not None}
    large = {name: share for name, share in others.items() if share >= _LARGE}
    if large:
        each = [f"{large[name]:.0%} of {name}" for name in sorted(large, key=lambda name: -large[name])]
        said.append(
            f"told as 'other' in the released rows, because the schema does not list it: {listed(each, _NAMED)}; list "
            "what may occur, from what is public"
        )
    ends = [] if public is None else [words for column in known for words in _ends(column, codes, public)]
    if ends:
        said.append(
            f"far fuller than in the public table: {listed(ends, _NAMED)}; such a bin also holds what lies beyond the "
            "bounds, told as if it were inside, so widen them if there may be any"
        )
    return said


def _ends(column: Column, codes: Table, public: Table) -> Iterable[str]:
    """The outer bins that also hold what lies beyond, where they are much fuller than in the public table."""
    if not isinstance(column, Binned) or column.out_of_domain not in ("open", "clip"):
        return
    for code in sorted({0, column.count - 1}):
        share, before = _share(codes, column, code), _share(public, column, code)
        if share - before >= _MORE:
            yield f"'{column.labels[code]}' of {column.name} ({share:.0%}, there {before:.0%})"


def _share(table: Table, column: Column, code: int) -> float:
    return float(np.mean(table.column(column.name) == code))

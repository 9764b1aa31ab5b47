"""More rows of a release, fewer, or rows with given values: drawn from its model, without another look at private data.

Everything here is post-processing of what was released, so it costs nothing, whoever does it and however often. What
the model does not know, more rows do not tell.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from openprior.display import listed
from openprior.errors import OpenPriorWarning, WorkloadError
from openprior.given import whole_number
from openprior.models.base import Model
from openprior.releases.row_parts import all_rows
from openprior.schema.base import Schema
from openprior.tables.conditions import allowed_codes, wider_bins
from openprior.tables.decode import Decoder
from openprior.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

__all__ = ["MODEL", "RELEASED", "draw_rows", "origin_of"]

MODEL, RELEASED = "drawn from the model", "taken from the released rows"
"""Where rows come from; written into the metadata of their table."""

_MOST = 100_000_000
"""Rows that are drawn at once."""


def draw_rows(
    model: Model,
    schema: Schema,
    synthetic: "pa.Table | pads.Dataset",
    codes: Callable[[], Table],
    *,
    n: int | None,
    where: Mapping[str, Any] | None,
    seed: int | None,
) -> "pa.Table":
    """Rows of a release; `codes` gives the released ones as codes. See `Release.rows`."""
    if n is not None and whole_number("n", n, 1) > _MOST:
        raise WorkloadError(f"n = {n:,} rows are too many to draw at once; draw at most {_MOST:,}")
    rng = np.random.default_rng(None if seed is None else whole_number("seed", seed, 0))
    if where is None:
        if n is None:
            return _marked(all_rows(synthetic), RELEASED)
        return _drawn(model, schema, synthetic, n, rng)
    allowed = allowed_codes(where, schema)
    wider = wider_bins(where, schema)
    if wider:
        warnings.warn(
            f"bins are drawn whole, so rows have other values, too: {listed(wider, 4)}; filter the rows, or name bins "
            "by their labels",
            OpenPriorWarning,
            stacklevel=3,
        )
    if not model.can_restrict:
        return _filtered(synthetic, codes(), allowed, where, n, rng)
    there = model.restricted(allowed)
    if there is None:
        raise _nothing(where)
    if there.total < 1:
        warnings.warn(
            f"the release expects fewer than one row with {_words(where)}; such rows show what its model supposes",
            OpenPriorWarning,
            stacklevel=3,
        )
    return _drawn(there, schema, synthetic, max(1, round(there.total)) if n is None else n, rng)


def origin_of(rows: "pa.Table") -> str:
    """Where rows come from, in words."""
    return str((rows.schema.metadata or {}).get(b"openprior", b"").decode())


def _drawn(
    model: Model, schema: Schema, synthetic: "pa.Table | pads.Dataset", n: int, rng: np.random.Generator
) -> "pa.Table":
    """Inside a bin, values are those that released rows have there: the public table is not in a release."""
    decoder = Decoder.fit(schema.plain, synthetic, rng=rng)  # released texts are spelled plainly
    return _marked(decoder.decode(model.sample(n, rng), rng), MODEL)


def _filtered(
    synthetic: "pa.Table | pads.Dataset",
    codes: Table,
    allowed: Mapping[str, Any],
    where: Mapping[str, Any],
    n: int | None,
    rng: np.random.Generator,
) -> "pa.Table":
    """The released rows that fit; if another number is asked for, each as often as the others, up to one."""
    import pyarrow as pa

    matching = np.flatnonzero(codes.inside(allowed))
    if not len(matching):
        raise _nothing(where)
    if n is not None:
        times, rest = divmod(n, len(matching))
        matching = np.concatenate([np.repeat(matching, times), rng.permutation(matching)[:rest]])
        matching = rng.permutation(matching)
    return _marked(synthetic.take(pa.array(matching)), RELEASED)


def _marked(rows: "pa.Table", origin: str) -> "pa.Table":
    return rows.replace_schema_metadata({"openprior": origin})


def _nothing(where: Mapping[str, Any]) -> WorkloadError:
    return WorkloadError(
        f"nothing in the release has {_words(where)}; allow more labels or name fewer columns"
    )


def _words(where: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in where.items())
